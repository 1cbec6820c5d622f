#include "base/dynamic_library.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::HasSubstr;

constexpr char kMath[] = "libm.so.6";        // This program has it loaded, as libstdc++ needs it.
constexpr char kResolver[] = "libanl.so.1";  // glibc's, too, and nothing needs it.

TEST(DynamicLibraryTest, AFunctionIsFoundByItsName) {
  const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open({"", "libnone.so.0", kMath});
  ASSERT_TRUE(library.ok()) << library.status();
  double (*root)(double) = nullptr;
  ASSERT_TRUE(library->Find("sqrt", &root).ok());
  EXPECT_EQ(root(9.0), 3.0);
}

TEST(DynamicLibraryTest, ALoadedLibraryComesBeforeOneThatCanBeLoaded) {
  ASSERT_EQ(dlopen(kResolver, RTLD_NOW | RTLD_NOLOAD), nullptr) << "the test needs a library that is not loaded";
  double (*root)(double) = nullptr;
  EXPECT_TRUE(DynamicLibrary::Open({kResolver, kMath})->Find("sqrt", &root).ok());
  EXPECT_EQ(dlopen(kResolver, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(DynamicLibraryTest, AMissingLibraryAndAMissingFunctionAreNamed) {
  const absl::Status missing = DynamicLibrary::Open({"libnone.so.0", "libnothing.so.0"}).status();
  EXPECT_TRUE(absl::IsUnavailable(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("libnothing.so.0"));
  EXPECT_EQ(DynamicLibrary::Open({""}).status().message(), "no name was given");
  auto* function = reinterpret_cast<void (*)()>(&dlclose);
  const absl::Status none = DynamicLibrary::Open({kMath})->Find("no_such_function", &function);
  EXPECT_EQ(none, absl::UnavailableError("libm.so.6 has no no_such_function"));
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace farandole
