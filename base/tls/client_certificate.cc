#include "base/tls/client_certificate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/tls/certificate_reader.h"

namespace farandole {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;
// The group may read: Kubernetes gives the secrets that it mounts to the group of the pod.
constexpr mode_t kEverybody = 07;

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error) == absl::StatusCode::kUnknown ? absl::StatusCode::kUnavailable
                                                                                   : absl::ErrnoToStatusCode(error),
                      absl::StrCat("the ", what, " ", path, " cannot be read: ", strerror(error)));
}

absl::StatusOr<std::string> Read(absl::string_view what, const std::string& path, bool is_secret) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Failed(what, path, errno);
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat facts = {};
  if (fstat(file, &facts) != 0) return Failed(what, path, errno);
  if (is_secret && (facts.st_mode & kEverybody) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "the %s %s has mode %04o, so that every user of this host may read it; make it private with `chmod 600 %s`",
        what, path, facts.st_mode & 07777, path));
  }
  std::string text;
  char bytes[16 * 1024];
  for (;;) {
    const ssize_t count = read(file, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(what, path, errno);
    if (count == 0) return text;
    text.append(bytes, static_cast<size_t>(count));
    if (text.size() > kMostFileBytes) return Failed(what, path, EFBIG);
  }
}

}  // namespace

absl::StatusOr<Certificate> ReadClientCertificate(const std::string& certificate_file, const std::string& key_file,
                                                  absl::Time now) {
  absl::StatusOr<std::string> certificate = Read("certificate file", certificate_file, /*is_secret=*/false);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = Read("key file", key_file, /*is_secret=*/true);
  if (!key.ok()) return key.status();
  Certificate pair = {*std::move(certificate), *std::move(key)};
  if (const absl::Status status = CheckCertificate(pair, now).status(); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the certificate file ", certificate_file, " with the key file ",
                                                   key_file, ": ", status.message()));
  }
  return pair;
}

}  // namespace farandole
