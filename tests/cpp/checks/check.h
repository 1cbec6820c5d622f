#ifndef FARANDOLE_TESTS_CPP_CHECKS_CHECK_H_
#define FARANDOLE_TESTS_CPP_CHECKS_CHECK_H_

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "farandole/farandole.h"

// Checks that all ranks of a job make, as those of tests/python/checks: one program runs all of them, in order.
namespace farandole::checks {

// A check that failed; its text says where and why.
using Failed = std::runtime_error;

struct NamedCheck {
  std::string name;
  std::function<void(Job&)> run;
};

// All checks, in the order in which the linker has their files.
std::vector<NamedCheck>& AllChecks();

struct Registration {
  Registration(std::string name, std::function<void(Job&)> run) {
    AllChecks().push_back({std::move(name), std::move(run)});
  }
};

template <typename Found, typename Wanted>
void RequireEqual(const Found& found, const Wanted& wanted, const char* what, const char* file, int line) {
  if (found == wanted) return;
  std::ostringstream text;
  text << file << ":" << line << ": " << what << " is " << found << ", not " << wanted;
  throw Failed(text.str());
}

inline void RequireTrue(bool holds, const std::string& what, const char* file, int line) {
  if (!holds) throw Failed(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

inline void RequireOk(const Status& status, const char* file, int line) {
  RequireTrue(status.ok(), status.message(), file, line);
}

// Fails unless it is an error of this code whose sentence has all the words.
template <typename... Words>
void RequireError(const char* file, int line, const Status& status, StatusCode code, const Words&... words) {
  RequireTrue(status.code() == code,
              "the code is " + std::to_string(static_cast<int>(status.code())) + " (" + status.message() + "), not " +
                  std::to_string(static_cast<int>(code)),
              file, line);
  for (const std::string& word : std::vector<std::string>{words...}) {
    RequireTrue(status.message().find(word) != std::string::npos, word + " is not in: " + status.message(), file, line);
  }
}

}  // namespace farandole::checks

// Defines a check: CHECK_OF_ALL_RANKS(SumsAreEqual) { ... job ... }
#define CHECK_OF_ALL_RANKS(name)                                                      \
  static void name([[maybe_unused]] ::farandole::Job& job);                           \
  static const ::farandole::checks::Registration registration_of_##name(#name, name); \
  static void name([[maybe_unused]] ::farandole::Job& job)
#define REQUIRE(condition) \
  ::farandole::checks::RequireTrue((condition), #condition " does not hold", __FILE__, __LINE__)
#define REQUIRE_EQ(found, wanted) ::farandole::checks::RequireEqual((found), (wanted), #found, __FILE__, __LINE__)
#define REQUIRE_OK(status) ::farandole::checks::RequireOk((status), __FILE__, __LINE__)
#define REQUIRE_ERROR(status, ...) ::farandole::checks::RequireError(__FILE__, __LINE__, (status), __VA_ARGS__)

#endif  // FARANDOLE_TESTS_CPP_CHECKS_CHECK_H_
