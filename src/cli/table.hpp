// Text in columns of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// Columns that the text takes: 2 for East Asian wide characters and emoji, 0 for combining ones.
std::size_t display_width(std::string_view text);
// The start of the text, no wider than that.
std::string_view fitting(std::string_view text, std::size_t columns);

// The text, or as much of it as fits with an ellipsis at its end.
std::string shortened(std::string_view text, std::size_t columns);

// The line, in several where it is wider than that: each after the first begins with `hang` blanks. It is broken
// between words alone, in the first line behind the hang. Whole where the columns do not even hold the hang (0: no
// terminal).
std::string folded(std::string_view line, std::size_t columns, std::size_t hang);

struct Cell {
  std::string text;
  std::string_view color = "";  // an escape sequence; it takes no columns
};
using Row = std::vector<Cell>;

// What the column takes.
std::size_t column_width(const std::vector<Row>& rows, std::size_t column);
void shorten_column(std::vector<Row>& rows, std::size_t column, std::size_t width);

// Two blanks between columns, none at the end of a line.
std::string aligned(const std::vector<Row>& rows);

}  // namespace cli
