#include "worker/log.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace farandole {

void Log(absl::string_view sentence) {
  const std::string line = absl::StrCat("farandole: ", sentence, "\n");
  // A closed standard error is no reason to fail.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace farandole
