#include "worker/device/fake/fake_clique_files.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {

FakeCliqueFiles::FakeCliqueFiles(const std::string& directory, uint64_t id)
    : prefix_(absl::StrCat(directory, "/", id, ".")) {}

std::string FakeCliqueFiles::PathOf(absl::string_view kind, uint64_t number, int from) const {
  return absl::StrCat(prefix_, kind, ".", number, ".", from);
}

void FakeCliqueFiles::Put(absl::string_view kind, uint64_t number, int from, const std::string& content) {
  const std::string path = PathOf(kind, number, from);
  // Two threads of a rank may put the same file.
  const std::string unfinished = absl::StrCat(path, ".", gettid(), ".new");
  std::ofstream file(unfinished, std::ios::binary);
  file << content;
  file.close();
  FD_CHECK(file.good() && rename(unfinished.c_str(), path.c_str()) == 0) << path;
}

std::optional<std::string> FakeCliqueFiles::Get(absl::string_view kind, uint64_t number, int from) const {
  std::ifstream file(PathOf(kind, number, from), std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void FakeCliqueFiles::Remove(absl::string_view kind, uint64_t number, int from) {
  unlink(PathOf(kind, number, from).c_str());
}

}  // namespace farandole
