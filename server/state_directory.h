#ifndef FARANDOLE_SERVER_STATE_DIRECTORY_H_
#define FARANDOLE_SERVER_STATE_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/store.h"

namespace farandole {

// In a state directory, while a backup is restored there.
inline constexpr char kRestoringFolder[] = "restoring";

// A new token (server/registry/token_text.h).
std::string NewToken();

// The files of a coordinator's state directory, for its owner only (mode 0700):
//   store/   the database
//   token    the start token (mode 0600), which gives all rights
//   key      what other tokens and credentials are made with (mode 0600)
//   restoring/  parts of a backup whose restoring has not ended
//   audit/   who did what (server/audit/audit_log.h)
//   address  HOST:PORT, as long as the coordinator listens there
// Owned by the coordinator.
class StateDirectory {
 public:
  // Makes the directory where it does not exist (mode 0700); that survives a loss of power.
  //   FAILED_PRECONDITION  it is another user's, or its mode is not 0700 (the command that mends it is named); or a
  //                        backup was not restored to its end
  //   UNAVAILABLE          it cannot be made or used (the system's words)
  static absl::StatusOr<StateDirectory> Open(std::string path);
  // As Open, to restore a backup: nothing is in it but what a restoring that was cut off has left.
  //   FAILED_PRECONDITION  also: there is something else in it (named)
  static absl::StatusOr<StateDirectory> OpenEmpty(std::string path);

  const std::string& path() const { return path_; }
  std::string store_path() const { return path_ + "/" + kStoreFolder; }
  std::string token_path() const { return path_ + "/token"; }
  std::string key_path() const { return path_ + "/key"; }
  std::string restoring_path() const { return path_ + "/" + kRestoringFolder; }
  std::string address_path() const { return path_ + "/address"; }

  // The token of an earlier start, or a new one that is written first.
  //   FAILED_PRECONDITION  others may read the file (its mode is named), or what it holds is no token
  //   UNAVAILABLE          it cannot be read or written (the system's words)
  absl::StatusOr<std::string> EnsureToken() const;
  // Writes the file, which is there with all of it or not at all. UNAVAILABLE: it cannot be written (the system's
  // words).
  static absl::Status WritePrivateFile(const std::string& path, absl::string_view content);
  // Makes `token` the start token of the next start. UNAVAILABLE: it cannot be written (the system's words).
  absl::Status WriteToken(const std::string& token) const;
  // The key of an earlier start, or a new one that is written first: what the tokens of calls and the credentials of
  // runs are made with. Errors: as EnsureToken's.
  absl::StatusOr<std::string> EnsureKey() const;

  // Files made in it survive a loss of power after this. UNAVAILABLE: the device failed.
  absl::Status Sync() const;

  absl::Status WriteAddress(const std::string& address) const;
  void RemoveAddress() const;

 private:
  absl::StatusOr<std::string> EnsureSecret(const std::string& path, absl::string_view what,
                                           const std::string& fresh) const;
  static absl::StatusOr<StateDirectory> Make(std::string path);
  explicit StateDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STATE_DIRECTORY_H_
