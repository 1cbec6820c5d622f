// Writes docs/metrics.md and docs/settings.md into the directory that it is given.
#include <cstdio>
#include <fstream>
#include <string>

#include "tools/reference/reference.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "write_reference: one argument, the directory of the pages\n");
    return 2;
  }
  const std::string directory = argv[1];
  std::ofstream metrics(directory + "/metrics.md");
  metrics << farandole::MetricsPage() << std::flush;
  std::ofstream settings(directory + "/settings.md");
  settings << farandole::SettingsPage() << std::flush;
  if (metrics && settings) return 0;
  std::fprintf(stderr, "write_reference: cannot write into %s\n", directory.c_str());
  return 1;
}
