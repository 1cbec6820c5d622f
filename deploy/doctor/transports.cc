#include "deploy/doctor/transports.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/dynamic_library.h"
#include "deploy/doctor/program_output.h"

namespace farandole::doctor {
namespace {

constexpr size_t kSegmentBytes = 1 << 20;

std::string Words(int error) { return strerror(error); }

Finding CheckSharedMemory() {
  const char* advice = "the kernel, or the container's seccomp profile, must allow it";
  const int fd = memfd_create("farandole-doctor", MFD_CLOEXEC);
  if (fd < 0) return Fail("shm", absl::StrCat("memfd_create: ", Words(errno)), advice);
  const absl::Cleanup close_segment = [fd] { close(fd); };
  if (ftruncate(fd, kSegmentBytes) != 0) return Fail("shm", absl::StrCat("ftruncate: ", Words(errno)), advice);
  void* memory = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Fail("shm", absl::StrCat("mmap: ", Words(errno)), advice);
  munmap(memory, kSegmentBytes);
  const int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (door < 0) return Fail("shm", absl::StrCat("a Unix socket: ", Words(errno)), advice);
  close(door);
  return Ok("shm", "memfd and Unix sockets work; /dev/shm is not used");
}

Finding CheckProcessWatch() {
  const long fd = syscall(SYS_pidfd_open, getpid(), 0);
  if (fd < 0) {
    return Fail("pidfd", absl::StrCat("pidfd_open: ", Words(errno)),
                "Linux 5.3 or newer is needed, and a seccomp profile that allows it");
  }
  close(static_cast<int>(fd));
  return Ok("pidfd", "the death of a process is seen at once");
}

// A connection to itself over loopback.
absl::Status TryTcp(int family) {
  sockaddr_storage address = {};
  socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
  }
  auto* where = reinterpret_cast<sockaddr*>(&address);
  const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_both = [&] {
    close(listener);
    close(client);
  };
  const bool is_connected = listener >= 0 && client >= 0 && bind(listener, where, length) == 0 &&
                            listen(listener, 1) == 0 && getsockname(listener, where, &length) == 0 &&
                            connect(client, where, length) == 0;
  return is_connected ? absl::OkStatus() : absl::UnavailableError(Words(errno));
}

Findings CheckTcp() {
  Findings findings;
  const absl::Status ip4 = TryTcp(AF_INET);
  const absl::Status ip6 = TryTcp(AF_INET6);
  if (!ip4.ok()) {
    findings.push_back(Fail("tcp", absl::StrCat("IPv4 over loopback: ", ip4.message()),
                            "bring the interface lo up; workers reach their coordinator over it"));
  } else {
    findings.push_back(
        Ok("tcp", absl::StrCat("IPv4 works over loopback", ip6.ok() ? ", IPv6 too" : ", IPv6 does not")));
  }
  return findings;
}

// "" or why the library cannot be loaded.
std::string TryLibrary(const char* name) {
  return std::string(DynamicLibrary::Open({name}, RTLD_LAZY).status().message());
}

Finding CheckGloo() {
  const std::string missing = TryLibrary("libgloo.so.0");
  if (missing.empty()) return Ok("gloo", "libgloo.so.0 can be loaded");
  return Warn("gloo", missing, "apt-get install libgloo0, if jobs shall use the transport gloo");
}

Finding CheckNccl() {
  const bool has_gpu = access("/proc/driver/nvidia/version", R_OK) == 0;
  const std::string missing = TryLibrary("libnccl.so.2");
  if (missing.empty())
    return Ok("nccl", absl::StrCat("libnccl.so.2 can be loaded", has_gpu ? "" : "; no NVIDIA GPU is here"));
  if (!has_gpu) return Ok("nccl", "not needed: no NVIDIA GPU is here");
  return Warn("nccl", missing, "install NCCL 2, or a framework that brings it");
}

// Whether a parent may read its child's memory, as a worker would a peer's.
Finding CheckPeerMemory() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  int word = 4711;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  if (child < 0) return Fail("ptrace", absl::StrCat("fork: ", Words(errno)), "raise the limit of processes");
  int copy = 0;
  const iovec local = {&copy, sizeof(copy)};
  const iovec remote = {&word, sizeof(word)};
  const bool works = process_vm_readv(child, &local, 1, &remote, 1, 0) == sizeof(copy) && copy == word;
  const int error = errno;
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  const std::string settings = absl::StrCat("kernel.yama.ptrace_scope is ", scope);
  if (works) return Ok("ptrace", absl::StrCat("a child's memory can be read; ", settings));
  return Warn("ptrace", absl::StrCat("process_vm_readv: ", Words(error), "; ", settings),
              "no transport needs it, but gdb and py-spy cannot look into a worker that hangs; in a container, add "
              "the capability SYS_PTRACE");
}

std::string NumericAddress(const sockaddr* address) {
  char host[NI_MAXHOST];
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0 ? host : "?";
}

}  // namespace

Findings CheckTransports() {
  Findings findings = {CheckSharedMemory(), CheckProcessWatch()};
  for (Finding& finding : CheckTcp()) findings.push_back(std::move(finding));
  findings.push_back(CheckGloo());
  findings.push_back(CheckNccl());
  findings.push_back(CheckPeerMemory());
  return findings;
}

Findings CheckNetwork() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {Warn("network", absl::StrCat("getifaddrs: ", Words(errno)), "")};
  const absl::Cleanup free_list = [first] { freeifaddrs(first); };
  std::map<std::string, std::vector<std::string>> interfaces;
  bool reaches_others = false;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const bool is_up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    if (!is_up || entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    interfaces[entry->ifa_name].push_back(NumericAddress(entry->ifa_addr));
    reaches_others = reaches_others || (entry->ifa_flags & IFF_LOOPBACK) == 0;
  }
  Findings findings;
  for (const auto& [name, addresses] : interfaces)
    findings.push_back(Ok("network", absl::StrCat(name, ": ", absl::StrJoin(addresses, ", "))));
  if (!reaches_others) {
    findings.push_back(Warn("network", "no interface but loopback is up", "jobs over several hosts need one"));
  }
  return findings;
}

Findings CheckSsh(const std::vector<std::string>& environment) {
  const absl::StatusOr<ProgramOutput> version = RunProgram({"ssh", "-V"}, environment, absl::Seconds(10));
  if (version.ok() && version->exit_code == 0)
    return {Ok("ssh", std::string(absl::StripAsciiWhitespace(version->text)))};
  return {Warn(
      "ssh",
      version.ok() ? absl::StrCat("ssh -V exits with ", version->exit_code) : std::string(version.status().message()),
      "apt-get install openssh-client: farandole run starts workers on other hosts by it")};
}

}  // namespace farandole::doctor
