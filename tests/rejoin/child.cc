#include "tests/rejoin/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace farandole {
namespace {

// On a machine that is busy with the rest of the tests.
constexpr int64_t kPatienceMs = 60'000;

int64_t NowMs() {
  struct timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000 + now.tv_nsec / 1'000'000;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment) {
  int input[2], output[2];
  FD_CHECK(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO);
  std::vector<std::string> words = command;
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  const int error =
      posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, Pointers(&words).data(), Pointers(&settings).data());
  FD_CHECK_EQ(error, 0) << "cannot start " << words[0];
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  output_ = output[0];
}

Child::~Child() {
  Kill();
  close(input_);
  close(output_);
}

void Child::Tell(char letter) { FD_CHECK_EQ(write(input_, &letter, 1), 1); }

void Child::Signal(int signal) const { kill(pid_, signal); }

void Child::Kill() {
  if (end_.has_value()) return;
  Signal(SIGKILL);
  Wait();
}

int Child::Wait() {
  if (end_.has_value()) return *end_;
  int status = 0;
  FD_CHECK_EQ(waitpid(pid_, &status, 0), pid_);
  end_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return *end_;
}

std::optional<std::string> Child::Await(const std::string& words) {
  const int64_t deadline = NowMs() + kPatienceMs;
  for (;;) {
    for (size_t end = text_.find('\n', read_to_); end != std::string::npos; end = text_.find('\n', read_to_)) {
      const std::string line = text_.substr(read_to_, end - read_to_);
      read_to_ = end + 1;
      if (line.find(words) != std::string::npos) return line;
    }
    if (!ReadMore(deadline)) return std::nullopt;
  }
}

const std::string& Child::text() {
  while (ReadMore(0)) {
  }
  return text_;
}

bool Child::ReadMore(int64_t deadline_ms) {
  struct pollfd entry = {output_, POLLIN, 0};
  const int left = static_cast<int>(std::max<int64_t>(0, deadline_ms - NowMs()));
  char bytes[4096];
  if (poll(&entry, 1, left) <= 0) return false;
  const ssize_t got = read(output_, bytes, sizeof(bytes));
  if (got <= 0) return false;
  text_.append(bytes, static_cast<size_t>(got));
  return true;
}

}  // namespace farandole
