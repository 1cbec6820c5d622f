#include "checkpoint/testing/file_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace farandole {
namespace {

std::mutex noted_mutex;
bool notes = false;
std::vector<FileCall>& Noted() {
  static auto* const noted = new std::vector<FileCall>;
  return *noted;
}

// Calls until the process is killed; 0: it is not.
std::atomic<int> calls_left = 0;
std::atomic<bool> kills_after = false;

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::string Absolute(const char* path) {
  if (path[0] == '/') return path;
  char directory[4096];
  return std::string(getcwd(directory, sizeof(directory)) == nullptr ? "" : directory) + "/" + path;
}

std::string PathOf(int fd) {
  char path[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return std::string(path, size > 0 ? static_cast<size_t>(size) : 0);
}

std::string Directory(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }

// Makes the call `made`, and notes it where it succeeds.
template <typename Made>
int Pass(FileCall call, const Made& made) {
  const bool is_last = calls_left.load() > 0 && calls_left.fetch_sub(1) == 1;
  if (is_last && !kills_after) kill(getpid(), SIGKILL);
  const int result = made();
  if (is_last) kill(getpid(), SIGKILL);
  if (result < 0) return result;
  const std::lock_guard<std::mutex> lock(noted_mutex);
  if (notes) Noted().push_back(std::move(call));
  return result;
}

}  // namespace

void NoteFileCalls() {
  const std::lock_guard<std::mutex> lock(noted_mutex);
  Noted().clear();
  notes = true;
}

std::vector<FileCall> NotedFileCalls() {
  const std::lock_guard<std::mutex> lock(noted_mutex);
  return Noted();
}

std::vector<std::string> NamesAtRisk(const std::vector<FileCall>& calls) {
  std::vector<std::string> at_risk;
  for (const FileCall& call : calls) {
    const auto of_it = [&](const std::string& name) {
      return call.call == "sync" ? Directory(name) == call.path : name == call.path || name == call.from;
    };
    at_risk.erase(std::remove_if(at_risk.begin(), at_risk.end(), of_it), at_risk.end());
    if (call.call == "mkdir" || call.call == "create" || call.call == "rename") at_risk.push_back(call.path);
  }
  return at_risk;
}

void KillAtFileCall(int call, bool after) {
  kills_after = after;
  calls_left = call;
}

}  // namespace farandole

using farandole::Absolute;
using farandole::Next;
using farandole::Pass;
using farandole::PathOf;

extern "C" {

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = Next<int (*)(const char*, mode_t)>("mkdir");
  return Pass({"mkdir", Absolute(path), ""}, [&] { return next(path, mode); });
}

int open(const char* path, int flags, ...) {
  static const auto next = Next<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) == 0) return next(path, flags, mode);
  return Pass({"create", Absolute(path), ""}, [&] { return next(path, flags, mode); });
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = Next<int (*)(const char*, const char*)>("rename");
  return Pass({"rename", Absolute(to), Absolute(from)}, [&] { return next(from, to); });
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  static const auto next = Next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return Pass({"rename", Absolute(to), Absolute(from)},
              [&] { return next(from_directory, from, to_directory, to, flags); });
}

int unlink(const char* path) noexcept {
  static const auto next = Next<int (*)(const char*)>("unlink");
  return Pass({"unlink", Absolute(path), ""}, [&] { return next(path); });
}

int fsync(int fd) {
  static const auto next = Next<int (*)(int)>("fsync");
  return Pass({"sync", PathOf(fd), ""}, [&] { return next(fd); });
}

int fdatasync(int fd) {
  static const auto next = Next<int (*)(int)>("fdatasync");
  return Pass({"sync", PathOf(fd), ""}, [&] { return next(fd); });
}

}  // extern "C"
