// The options that every command takes: their declaration.
#include "cli/common_options.hpp"

namespace cli {

void CommonOptions::declare(Options& options, bool colored) {
  options.text("--store", "URL|NAME", "where locks live (LK_STORE; default: this user's file)", store);
  options.text("--prefix", "P", "before each key in Redis (LK_PREFIX; default lk:)", prefix);
  options.text("--config", "FILE", "settings, instead of the usual files (LK_CONFIG)", config);
  options.choice("--color", "WHEN", "auto|always|never", colored ? "auto, always or never (default auto)" : "", color);
  options.flag("-q,--quiet", "say nothing but errors", quiet);
  options.flag("-v,--verbose", "say more", verbose);
}

}  // namespace cli
