#ifndef FARANDOLE_BASE_CHECK_H_
#define FARANDOLE_BASE_CHECK_H_

#include <memory>
#include <ostream>
#include <sstream>

// Claims about our own code. Faults of the world (bad input, a dead peer, a full disk) are an absl::Status instead.
//
// If the claim does not hold, `FD_CHECK(claim) << "more"` writes "FILE:LINE: check failed: claim more" to standard
// error and aborts; the comparisons add both values. Operands are evaluated once, the streamed text only on failure. On
// in every build. Any thread.
#define FD_CHECK(claim)          \
  __builtin_expect(!!(claim), 1) \
      ? (void)0                  \
      : ::farandole::CheckVoid{} & ::farandole::CheckFailure(__FILE__, __LINE__, #claim).stream()

#define FD_CHECK_EQ(a, b) FD_CHECK_COMPARISON_(a, ==, b)
#define FD_CHECK_NE(a, b) FD_CHECK_COMPARISON_(a, !=, b)
#define FD_CHECK_LT(a, b) FD_CHECK_COMPARISON_(a, <, b)
#define FD_CHECK_LE(a, b) FD_CHECK_COMPARISON_(a, <=, b)
#define FD_CHECK_GT(a, b) FD_CHECK_COMPARISON_(a, >, b)
#define FD_CHECK_GE(a, b) FD_CHECK_COMPARISON_(a, >=, b)

// A loop, so that the values live until the failure has printed them and a trailing `<< "more"` still parses; it never
// turns twice, because the failure's destructor aborts.
#define FD_CHECK_COMPARISON_(a, op, b)                                                                                 \
  while (auto fd_failure = ::farandole::CheckComparison([](const auto& x, const auto& y) { return x op y; }, (a), (b), \
                                                        __FILE__, __LINE__, #a " " #op " " #b))                        \
  fd_failure->stream()

namespace farandole {

// One failed check while its message is collected; the destructor writes it and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* claim);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();

  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

// Gives both branches of FD_CHECK the type void; binds weaker than << and stronger than ?:.
struct CheckVoid {
  void operator&(std::ostream&) const {}
};

// Null where `claim(a, b)` holds, else a failure that names both values.
template <typename Claim, typename A, typename B>
std::unique_ptr<CheckFailure> CheckComparison(Claim claim, const A& a, const B& b, const char* file, int line,
                                              const char* text) {
  if (__builtin_expect(claim(a, b), 1)) return nullptr;
  auto failure = std::make_unique<CheckFailure>(file, line, text);
  failure->stream() << "(" << a << " vs " << b << ") ";
  return failure;
}

}  // namespace farandole

#endif  // FARANDOLE_BASE_CHECK_H_
