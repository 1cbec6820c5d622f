#ifndef FARANDOLE_TESTS_CPP_PROGRAMS_REQUIRE_H_
#define FARANDOLE_TESTS_CPP_PROGRAMS_REQUIRE_H_

#include <cstdio>
#include <cstdlib>

// Ends a program with code 1, and the line that does not hold. Unlike checks/check.h it throws nothing, since hooks of
// frameworks may run it.
inline void Require(bool holds, const char* what, int line) {
  if (holds) return;
  std::printf("line %d: %s does not hold\n", line, what);
  std::fflush(stdout);
  std::exit(1);
}
#define REQUIRE(condition) Require((condition), #condition, __LINE__)

#endif  // FARANDOLE_TESTS_CPP_PROGRAMS_REQUIRE_H_
