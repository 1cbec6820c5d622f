#ifndef FARANDOLE_WORKER_LAUNCH_QUIET_SPAWN_H_
#define FARANDOLE_WORKER_LAUNCH_QUIET_SPAWN_H_

#include <spawn.h>

#include <string>
#include <vector>

namespace farandole {

// Attributes for posix_spawn of a program of Farandole's within a training program: it gets a session of its own, which
// signals to the training program's group do not reach, and no signal is blocked or ignored in it, whatever the
// training program blocks or ignores.
class QuietSpawn {
 public:
  QuietSpawn();
  ~QuietSpawn() { posix_spawnattr_destroy(&attributes_); }
  QuietSpawn(const QuietSpawn&) = delete;
  QuietSpawn& operator=(const QuietSpawn&) = delete;

  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// The words as posix_spawn takes them, ended by null; `words` outlives them.
std::vector<char*> PointersTo(const std::vector<std::string>& words);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_QUIET_SPAWN_H_
