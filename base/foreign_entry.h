#ifndef FARANDOLE_BASE_FOREIGN_ENTRY_H_
#define FARANDOLE_BASE_FOREIGN_ENTRY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole {

// Files and directories in a directory that others may write, too: somebody may have put something there first, to read
// the output that goes to it or to lead it elsewhere.

// There is no entry at `path`, or it (the link, where it is one) belongs to root, to this process's user, or to whom
// the file system makes the owner of what this process puts there.
//   FAILED_PRECONDITION  it belongs to another user; the text names him, and follows "cannot write PATH: "
absl::Status CheckOwner(const std::string& path);

// Opens the file for writing, and empties or makes it. Follows a link only where CheckOwner has nothing against it.
//   FAILED_PRECONDITION  it cannot be opened, or is such a link; the text follows "cannot write PATH: "
absl::StatusOr<int> OpenToWrite(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_BASE_FOREIGN_ENTRY_H_
