#ifndef FARANDOLE_BASE_STATE_HOME_H_
#define FARANDOLE_BASE_STATE_HOME_H_

#include <string>

#include "absl/status/status.h"

namespace farandole {

// Where programs keep what outlives them. Containers often have no writable home: then it is a directory of this user
// alone among the temporary files, always the same one, so that the next run and the tools find it.
struct StateHome {
  // "": another user has the directory among the temporary files, so that nothing in it can be believed, or it cannot
  // be made.
  std::string path;
  // One sentence for a program that writes there: why it is not the user's own, or why there is none. "": it is.
  std::string remark;
};

// $XDG_STATE_HOME, otherwise $HOME/.local/state, where `farandole` below it can be made and written; otherwise
// TEMPORARY/farandole-state-UID, which alone it makes, so that no other user can have that name later. As the XDG base
// directory specification says, a path that is not absolute counts as none.
StateHome FindStateHome(const std::string& xdg_state_home, const std::string& home, const std::string& temporary);

// The first of `tmpdir` ($TMPDIR, if absolute), /tmp and /dev/shm in which this process may make files; /tmp where none
// is.
std::string TemporaryDirectory(const std::string& tmpdir);

// Makes the directory, which only this user can enter. Its parent exists; it may exist.
//   FAILED_PRECONDITION  it cannot be made, or it is not a directory of this user that nobody else can write; the text
//                        names it
absl::Status MakePrivateDirectory(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_BASE_STATE_HOME_H_
