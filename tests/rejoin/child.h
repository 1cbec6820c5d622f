#ifndef FARANDOLE_TESTS_REJOIN_CHILD_H_
#define FARANDOLE_TESTS_REJOIN_CHILD_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace farandole {

// A program that a test has started, and what it writes, to both of its outputs, line by line. Killed with its end.
class Child {
 public:
  // With exactly these variables of the environment.
  Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // To its standard input.
  void Tell(char letter);
  void Signal(int signal) const;
  // SIGKILL, and waits for its end.
  void Kill();
  // The next line that has `words`; those before it are passed over. nullopt after a minute, or at its end.
  std::optional<std::string> Await(const std::string& words);
  // Its exit code, or minus the signal that ended it. Waits.
  int Wait();
  // All that it has written.
  const std::string& text();

 private:
  bool ReadMore(int64_t deadline_ms);

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string text_;
  size_t read_to_ = 0;
  std::optional<int> end_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_REJOIN_CHILD_H_
