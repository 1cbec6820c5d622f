#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace farandole {

CheckFailure::CheckFailure(const char* file, int line, const char* claim) {
  text_ << file << ":" << line << ": check failed: " << claim << " ";
}

CheckFailure::~CheckFailure() {
  text_ << "\n";
  const std::string text = text_.str();
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace farandole
