// A training program without a model: an elastic worker that steps, and joins the next epoch when one ends.
//
// It reads one letter at a time from its standard input: r: all ranks join the next epoch in order; s: all ranks stop
// (its end means the same); p: tells what the process holds; d: says that the process will be ended; w: works for
// a second without a step; f: fails. It writes a line for each thing that happens, with the time in microseconds.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "worker/farandole.h"

namespace {

// Between two steps, for what a model would compute.
constexpr int kComputeMs = 1;

int64_t NowUs() {
  struct timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1'000;
}

void Say(const std::string& text) {
  const std::string line = std::to_string(NowUs()) + " " + text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(9);
}

int CountEntries(const char* directory) {
  int count = 0;
  DIR* const opened = opendir(directory);
  while (readdir(opened) != nullptr) ++count;
  closedir(opened);
  return count;
}

// Mappings of shared memory.
int CountSegments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("farandole-epoch") != std::string::npos) ++count;
  }
  return count;
}

void SayPlace(const char* what) {
  Say(std::string(what) + " epoch " + std::to_string(farandole_epoch()) + " rank " + std::to_string(farandole_rank()) +
      " of " + std::to_string(farandole_size()));
}

// The ranks' votes at a step: how many want each thing.
struct Votes {
  int64_t ranks = 1;
  int64_t rejoin = 0;
  int64_t stop = 0;
};

// One letter, if there is one within the time of a step's computation.
void Obey(Votes* votes) {
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, kComputeMs) <= 0) return;
  char letter = 's';
  const ssize_t count = read(STDIN_FILENO, &letter, 1);
  // Another worker that reads the same pipe was quicker.
  if (count < 0 && errno == EAGAIN) return;
  if (count == 1 && letter != 's') {
    if (letter == 'r') votes->rejoin = 1;
    if (letter == 'p') {
      Say("holds " + std::to_string(CountEntries("/proc/self/fd")) + " descriptors " +
          std::to_string(CountEntries("/proc/self/task")) + " threads " + std::to_string(CountSegments()) +
          " segments");
    }
    if (letter == 'd') Say("departs " + std::to_string(farandole_depart(30'000, "the machine is taken away")));
    if (letter == 'f') farandole_fail("no such label");
    if (letter == 'w') poll(nullptr, 0, 1'000);
    return;
  }
  votes->stop = 1;
}

void LookForChange(Votes* votes) {
  static int64_t told_epoch = -1;
  farandole_change change = {};
  change.struct_bytes = sizeof(change);
  if (farandole_change_wanted(&change) != FARANDOLE_OK || change.serial == 0) return;
  votes->rejoin = 1;
  if (told_epoch == farandole_epoch()) return;
  told_epoch = farandole_epoch();
  Say("change " + std::to_string(change.joining) + " joining " + std::to_string(change.leaving) + " leaving " +
      (change.i_leave != 0 ? "me: " : "others: ") + farandole_change_sentence());
}

int Step(Votes* votes) {
  const int64_t shape[] = {3};
  const farandole_handle handle =
      farandole_allreduce("votes", votes, votes, shape, 1, FARANDOLE_I64, FARANDOLE_SUM, 1.0, 1.0, 0, -1);
  if (handle < 0) return static_cast<int>(-handle);
  return farandole_finish(handle, -1);
}

// 0: goes on.
int Rejoin() {
  const int code = farandole_rejoin(nullptr);
  if (code == FARANDOLE_CANCELLED) {
    Say(std::string("dismissed ") + farandole_last_error());
    exit(0);
  }
  if (code != FARANDOLE_OK) {
    Say("failed " + std::to_string(code) + " " + farandole_last_error());
    exit(3);
  }
  SayPlace("joined");
  return code;
}

}  // namespace

int main() {
  fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
  const int code = farandole_init(nullptr, nullptr);
  if (code != FARANDOLE_OK) {
    Say((code == FARANDOLE_CANCELLED ? "dismissed " : "failed " + std::to_string(code) + " ") +
        std::string(farandole_last_error()));
    return code == FARANDOLE_CANCELLED ? 0 : 3;
  }
  SayPlace("joined");
  bool is_first = true;
  for (;;) {
    Votes votes;
    Obey(&votes);
    LookForChange(&votes);
    const int stepped = Step(&votes);
    if (stepped != FARANDOLE_OK) {
      Say("ended " + std::to_string(stepped) + " " + farandole_last_error());
      is_first = true;
      Rejoin();
      continue;
    }
    if (is_first) Say("stepped " + std::to_string(votes.ranks));
    is_first = false;
    if (votes.stop > 0) break;
    if (votes.rejoin == 0) continue;
    is_first = true;
    Rejoin();
  }
  const int left = farandole_shutdown(nullptr);
  Say("left " + std::to_string(left));
  return left;
}
