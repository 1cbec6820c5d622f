#include "worker/device/nccl/nccl_ras.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/quiet_thread.h"
#include "base/steady_time.h"

namespace farandole {
namespace {

// The protocol of ncclras (NCCL's src/ras/client.cc). The server answers with a version of its own, and both go on.
constexpr char kHello[] = "CLIENT PROTOCOL 2\n";
// In seconds: for how long it is to wait for other processes, to which it adds 5.
constexpr char kPatience[] = "TIMEOUT 4\n";
// All ranks are named, however many are behind.
constexpr char kQuestion[] = "VERBOSE STATUS\n";
// The replies to these words are single words.
constexpr size_t kMostReplyBytes = 128;
constexpr size_t kMostLines = 100;

bool IsUnderline(absl::string_view line) {
  return !line.empty() && line.find_first_not_of('=') == absl::string_view::npos;
}

bool IsHeadingOfFaults(const std::vector<absl::string_view>& lines, size_t at) {
  return (lines[at] == "Errors" || lines[at] == "Warnings") && at + 1 < lines.size() && IsUnderline(lines[at + 1]);
}

// The addresses of a host's name.
class Addresses {
 public:
  ~Addresses() {
    if (first_ != nullptr) freeaddrinfo(first_);
  }
  absl::Status LookUp(absl::string_view address) {
    const size_t colon = address.rfind(':');
    if (colon == absl::string_view::npos) return absl::InvalidArgumentError("it is no HOST:PORT");
    absl::string_view host = address.substr(0, colon);
    if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    const int error =
        getaddrinfo(std::string(host).c_str(), std::string(address.substr(colon + 1)).c_str(), &hints, &first_);
    return error == 0 ? absl::OkStatus() : absl::InvalidArgumentError(gai_strerror(error));
  }
  const addrinfo* first() const { return first_; }

 private:
  addrinfo* first_ = nullptr;
};

// One connection to RAS, until a deadline.
class Connection {
 public:
  explicit Connection(const NcclRasBounds& bounds) : bounds_(bounds), deadline_(SteadyNow() + bounds.time) {}
  ~Connection() { Close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // To the first of the addresses that takes it.
  absl::Status Open(absl::string_view address) {
    Addresses addresses;
    absl::Status status = addresses.LookUp(address);
    if (!status.ok()) return status;
    for (const addrinfo* next = addresses.first(); next != nullptr; next = next->ai_next) {
      status = OpenOne(*next);
      if (status.ok()) return status;
    }
    return status;
  }

  absl::Status Send(absl::string_view words) {
    // Few bytes fit into a fresh socket's buffer.
    if (send(fd_, words.data(), words.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(words.size()))
      return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("the connection broke: ", strerror(errno)));
  }

  // The line that answers `words` is to begin with `expected`.
  absl::Status Exchange(absl::string_view words, absl::string_view expected) {
    if (absl::Status sent = Send(words); !sent.ok()) return sent;
    size_t end = 0;
    while ((end = received_.find('\n')) == std::string::npos && received_.size() < kMostReplyBytes) {
      const absl::StatusOr<bool> more = Receive(kMostReplyBytes);
      if (!more.ok()) return more.status();
      if (!*more) return absl::UnavailableError("it ended the connection without a status");
    }
    const std::string line = received_.substr(0, end);
    received_.erase(0, end == std::string::npos ? end : end + 1);
    if (absl::StartsWithIgnoreCase(line, expected)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("it does not speak RAS' protocol, which has \"", expected,
                                                      "\" here: it says \"", absl::CHexEscape(line), "\""));
  }

  // All that comes, until the other side ends it or a bound is reached.
  absl::StatusOr<std::string> ReadAll() {
    while (received_.size() < bounds_.bytes) {
      const absl::StatusOr<bool> more = Receive(bounds_.bytes);
      if (!more.ok() && received_.empty()) return more.status();
      if (!more.ok()) return absl::StrCat(received_, "\n(the rest is missing: ", more.status().message(), ")\n");
      if (*more) continue;
      if (received_.empty()) return absl::UnavailableError("it ended the connection without a status");
      return received_;
    }
    return absl::StrCat(received_, "\n(the rest is left out: it has more than ", bounds_.bytes, " bytes)\n");
  }

 private:
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  absl::Status OpenOne(const addrinfo& to) {
    Close();
    fd_ = socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) return absl::UnavailableError(strerror(errno));
    int error = connect(fd_, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (absl::Status status = Await(POLLOUT); !status.ok()) return status;
      socklen_t bytes = sizeof(error);
      if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
    }
    if (error == 0) return absl::OkStatus();
    return error == ECONNREFUSED ? absl::NotFoundError(strerror(error)) : absl::UnavailableError(strerror(error));
  }

  absl::Status Await(short events) {  // NOLINT(google-runtime-int): poll(2)'s type.
    for (;;) {
      const absl::Duration left = deadline_ - SteadyNow();
      pollfd ready = {fd_, events, 0};
      const int count =
          left > absl::ZeroDuration() ? poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) : 0;
      if (count > 0) return absl::OkStatus();
      if (count < 0 && errno != EINTR) return absl::UnavailableError(strerror(errno));
      if (count == 0) {
        return absl::DeadlineExceededError(absl::StrCat("it takes longer than ", absl::FormatDuration(bounds_.time)));
      }
    }
  }

  // Adds the next bytes to `received_`, which then has `most` bytes at most; false: it was the end.
  absl::StatusOr<bool> Receive(size_t most) {
    char bytes[4096];
    ssize_t count = 0;
    do {
      if (absl::Status status = Await(POLLIN); !status.ok()) return status;
      count = recv(fd_, bytes, std::min(sizeof(bytes), most - received_.size()), 0);
    } while (count < 0 && (errno == EAGAIN || errno == EINTR));
    if (count < 0) return absl::UnavailableError(absl::StrCat("the connection broke: ", strerror(errno)));
    received_.append(bytes, static_cast<size_t>(count));
    return count > 0;
  }

  const NcclRasBounds bounds_;
  const absl::Time deadline_;
  int fd_ = -1;
  std::string received_;
};

}  // namespace

struct NcclRas::State {
  void Run(const Say& say) const;

  std::string address;
  NcclRasBounds bounds;
  std::atomic<bool> is_asking{false};
};

NcclRas::NcclRas(const std::string& address, const NcclRasBounds& bounds) : state_(std::make_shared<State>()) {
  state_->address = address;
  state_->bounds = bounds;
}

void NcclRas::Ask(Say say) {
  if (state_->address.empty() || state_->is_asking.exchange(true)) return;
  const bool runs = DetachQuietly([state = state_, say = std::move(say)] {
    state->Run(say);
    state->is_asking.store(false);
  });
  // If there are no more threads, do without this one.
  if (!runs) state_->is_asking.store(false);
}

void NcclRas::State::Run(const Say& say) const {
  const absl::StatusOr<std::string> status = ReadNcclRas(address, bounds);
  // As before NCCL 2.24.
  if (absl::IsNotFound(status.status())) return;
  if (!status.ok()) {
    return say(LogLevel::kInfo, absl::StrCat("NCCL's RAS at ", address, " says nothing: ", status.status().message()));
  }
  say(LogLevel::kWarning, absl::StrCat("NCCL's RAS at ", address, " says of its communicators:"));
  for (const std::string& line : NcclRasFindings(*status)) say(LogLevel::kWarning, absl::StrCat("NCCL's RAS: ", line));
}

absl::StatusOr<std::string> ReadNcclRas(const std::string& address, const NcclRasBounds& bounds) {
  Connection ras(bounds);
  absl::Status status = ras.Open(address);
  if (status.ok()) status = ras.Exchange(kHello, "SERVER PROTOCOL ");
  if (status.ok()) status = ras.Exchange(kPatience, "OK");
  if (status.ok()) status = ras.Send(kQuestion);
  if (!status.ok()) return status;
  return ras.ReadAll();
}

std::vector<std::string> NcclRasFindings(const std::string& status) {
  const std::vector<absl::string_view> lines = absl::StrSplit(status, '\n');
  std::vector<std::string> others;
  std::vector<std::string> faults;
  bool is_below = false;
  // NCCL prints both even if nothing is wrong: report them with the lines below.
  absl::string_view heading;
  for (size_t at = 0; at < lines.size(); ++at) {
    const absl::string_view line = absl::StripTrailingAsciiWhitespace(lines[at]);
    if (line.empty() || IsUnderline(line)) continue;
    if (IsHeadingOfFaults(lines, at)) {
      heading = line;
      is_below = true;
      continue;
    }
    if (!heading.empty()) faults.emplace_back(std::exchange(heading, ""));
    (is_below ? faults : others).emplace_back(line);
  }
  std::vector<std::string> findings = faults.empty() ? std::move(others) : std::move(faults);
  if (findings.size() <= kMostLines) return findings;
  const size_t more = findings.size() - (kMostLines - 1);
  findings.resize(kMostLines - 1);
  findings.push_back(absl::StrCat("(and ", more, " more lines)"));
  return findings;
}

}  // namespace farandole
