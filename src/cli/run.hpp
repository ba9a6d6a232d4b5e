// The way from the words of the command line to an exit status.
#pragma once

namespace cli {

// Blanks passwords in argv, runs the command that argv names, and turns whatever it throws into a sentence and a
// status.
int run(int argc, char** argv);

}  // namespace cli
