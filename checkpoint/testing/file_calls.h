#ifndef FARANDOLE_CHECKPOINT_TESTING_FILE_CALLS_H_
#define FARANDOLE_CHECKPOINT_TESTING_FILE_CALLS_H_

#include <string>
#include <vector>

namespace farandole {

// For tests: the calls of this process to the file system. A program that links this has its own mkdir, open (where it
// creates), rename, renameat2, unlink, fsync and fdatasync, which come before those of the C library, note the call,
// and pass it on. Threads may call them at the same time.
struct FileCall {
  // "mkdir", "create", "rename", "unlink", "sync".
  std::string call;
  // Absolute: for a rename the new name, for a sync the file or directory.
  std::string path;
  // The old name, if the call is a rename.
  std::string from;
};

// From now on; forgets the calls noted before.
void NoteFileCalls();
// Those that have succeeded since, in order.
std::vector<FileCall> NotedFileCalls();

// The names that a loss of power after these calls may lose: a file system keeps a name when its directory is synced
// after it was made there.
std::vector<std::string> NamesAtRisk(const std::vector<FileCall>& calls);

// The process kills itself (SIGKILL) at its `call`th call from now on, counted from 1: before the call is made, or
// after. 0: never.
void KillAtFileCall(int call, bool after);

}  // namespace farandole

#endif  // FARANDOLE_CHECKPOINT_TESTING_FILE_CALLS_H_
