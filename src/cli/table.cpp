// How wide characters are on a terminal, and columns made from that.
#include "cli/table.hpp"

#include <algorithm>
#include <array>

#include "core/text.hpp"

namespace cli {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Unicode 14, East_Asian_Width W and F; ranges that only unassigned code points part are joined.
constexpr std::array<Range, 81> wide{{
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x23f0, 0x23f0},
    {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},
    {0x2693, 0x2693},   {0x26a1, 0x26a1},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},
    {0x26ce, 0x26ce},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
    {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
    {0x27b0, 0x27b0},   {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0x3247},   {0x3250, 0x4dbf},   {0x4e00, 0xa4c6},   {0xa960, 0xa97c},
    {0xac00, 0xd7a3},   {0xf900, 0xfad9},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6b},   {0xff01, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x1b2fb}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
    {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393},
    {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e},
    {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567},
    {0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
    {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df}, {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc},
    {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945}, {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faf6},
    {0x20000, 0x3134a},
}};

// The combining marks of the scripts in wide use; a mark that is missing here only shifts a column by one.
constexpr std::array<Range, 26> combining{{
    {0x0300, 0x036f}, {0x0483, 0x0489},   {0x0591, 0x05bd}, {0x05bf, 0x05c7}, {0x0610, 0x061a}, {0x064b, 0x065f},
    {0x0670, 0x0670}, {0x06d6, 0x06dc},   {0x0900, 0x0902}, {0x093a, 0x093a}, {0x093c, 0x093c}, {0x0941, 0x0948},
    {0x094d, 0x094d}, {0x0e31, 0x0e31},   {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1160, 0x11ff}, {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x200d, 0x200d},   {0x20d0, 0x20f0}, {0x302a, 0x302d}, {0x3099, 0x309a}, {0xfe00, 0xfe0f},
    {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef},
}};

template <std::size_t size>
bool within(const std::array<Range, size>& ranges, char32_t code_point) {
  const auto range = std::lower_bound(
      ranges.begin(), ranges.end(), code_point, [](const Range& a, char32_t value) { return a.last < value; });
  return range != ranges.end() && range->first <= code_point;
}

std::size_t width_of(char32_t code_point) {
  if (within(combining, code_point)) {
    return 0;
  }
  return within(wide, code_point) ? 2 : 1;
}

// Takes one character off the text.
std::size_t take_width(std::string_view& text) {
  char32_t code_point = 0;
  const std::size_t length = core::decode_utf8(text, code_point);
  text.remove_prefix(std::max<std::size_t>(length, 1));
  return length == 0 ? 1 : width_of(code_point);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    width += take_width(text);
  }
  return width;
}

std::string_view fitting(std::string_view text, std::size_t columns) {
  std::string_view rest = text;
  std::size_t end = 0;
  for (std::size_t width = 0; !rest.empty(); end = text.size() - rest.size()) {
    width += take_width(rest);
    if (width > columns) {
      break;
    }
  }
  return text.substr(0, end);
}

std::string shortened(std::string_view text, std::size_t columns) {
  return display_width(text) <= columns ? std::string(text)
                                        : std::string(fitting(text, std::max<std::size_t>(columns, 1) - 1)) + "…";
}

std::string folded(std::string_view line, std::size_t columns, std::size_t hang) {
  if (columns <= hang) {
    return std::string(line);
  }
  std::string text;
  std::size_t indent = 0;
  std::size_t earliest = hang + 1;
  while (indent + display_width(line) > columns) {
    const std::size_t room = fitting(line, columns - indent).size();
    std::size_t blank = line.rfind(' ', room);
    if (blank == std::string_view::npos || blank < earliest) {
      blank = line.find(' ', std::max(room, earliest));
    }
    const std::size_t next = line.find_first_not_of(' ', blank);
    if (blank == std::string_view::npos || next == std::string_view::npos) {
      break;
    }
    const std::string_view head = line.substr(0, blank);
    text.append(indent, ' ').append(head.substr(0, head.find_last_not_of(' ') + 1)) += '\n';
    line.remove_prefix(next);
    indent = hang;
    earliest = 1;
  }
  return text.append(indent, ' ').append(line);
}

std::size_t column_width(const std::vector<Row>& rows, std::size_t column) {
  std::size_t widest = 0;
  for (const Row& row : rows) {
    widest = std::max(widest, display_width(row[column].text));
  }
  return widest;
}

void shorten_column(std::vector<Row>& rows, std::size_t column, std::size_t width) {
  for (Row& row : rows) {
    row[column].text = shortened(row[column].text, width);
  }
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    std::size_t blanks = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Cell& cell = row[i];
      if (!cell.text.empty()) {
        line.append(blanks, ' ');
        blanks = 0;
        line += cell.color;
        line += cell.text;
        line += cell.color.empty() ? "" : "\x1b[0m";
      }
      blanks += widths[i] - display_width(cell.text) + 2;
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace cli
