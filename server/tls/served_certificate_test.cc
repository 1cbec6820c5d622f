#include "server/tls/served_certificate.h"

#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/tls/memory_file.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kInterval = absl::Milliseconds(5);

Certificate Make(const std::string& name, absl::Duration life = absl::Hours(1)) {
  const absl::StatusOr<Certificate> made = MakeCertificate({name}, absl::Now() - absl::Hours(2), absl::Now() + life);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : Certificate();
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

class ServedCertificateTest : public ::testing::Test {
 protected:
  ServedCertificateTest() {
    std::string directory = absl::StrCat(::testing::TempDir(), "/served-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    certificate_file_ = directory + "/cert.pem";
    key_file_ = directory + "/key.pem";
  }

  void Write(const Certificate& pair) const {
    std::ofstream(certificate_file_) << pair.certificate_pem;
    std::ofstream(key_file_) << pair.key_pem;
  }

  absl::StatusOr<std::unique_ptr<ServedCertificate>> Load() const {
    return ServedCertificate::Load(certificate_file_, key_file_);
  }

  std::string certificate_file_;
  std::string key_file_;
};

TEST_F(ServedCertificateTest, ANewPairIsTakenAndABadOneIsTold) {
  Write(Make("first"));
  auto served = Load();
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ((*served)->facts().dns_names, std::vector<std::string>{"first"});
  std::promise<std::string> changed, refused;
  std::vector<std::string> changes;
  int refusals = 0;
  (*served)->Watch({[&](const Certificate&, const CertificateFacts& facts) {
                      changes.push_back(facts.dns_names.at(0));
                      if (changes.size() == 1) changed.set_value(changes.back());
                      return absl::OkStatus();
                    },
                    [&] {
                      if (++refusals == 1) refused.set_value("");
                    }},
                   kInterval);
  // The key of another certificate.
  const Certificate second = Make("second");
  Write({second.certificate_pem, Make("other").key_pem});
  refused.get_future().wait();
  EXPECT_TRUE(changes.empty());
  Write(second);
  EXPECT_EQ(changed.get_future().get(), "second");
  served->reset();
  EXPECT_EQ(refusals, 1);
  EXPECT_EQ(changes.size(), 1u);
}

TEST_F(ServedCertificateTest, APairThatCannotBeServedIsTriedAgainUntilItCan) {
  Write(Make("first"));
  auto served = Load();
  ASSERT_TRUE(served.ok()) << served.status();
  std::promise<void> taken;
  int tries = 0;
  (*served)->Watch({[&](const Certificate&, const CertificateFacts&) {
                      if (++tries < 4) return absl::UnavailableError("no descriptor is left");
                      taken.set_value();
                      return absl::OkStatus();
                    },
                    [] {}},
                   kInterval);
  Write(Make("second"));
  taken.get_future().wait();
  served->reset();
  EXPECT_EQ(tries, 4);
}

TEST_F(ServedCertificateTest, AStartWithABadPairNamesFilesAndReason) {
  const absl::Status missing = Load().status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(missing.message(), HasSubstr(absl::StrCat("--tls-cert ", certificate_file_)));
  Write(Make("expired", absl::Hours(-1)));
  const absl::Status expired = Load().status();
  EXPECT_EQ(expired.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(expired.message(), HasSubstr(key_file_));
  EXPECT_THAT(expired.message(), HasSubstr("is valid from"));
}

TEST(MemoryFileTest, ItsPathMeansTheNewContentAndItsReadersKeepTheOld) {
  const absl::StatusOr<std::unique_ptr<MemoryFile>> file = MemoryFile::Make("old");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string path = (*file)->path();
  EXPECT_EQ(Read(path), "old");
  std::ifstream reader(path);
  EXPECT_EQ(reader.get(), 'o');
  ASSERT_TRUE((*file)->Replace("fresh").ok());
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ(Read(path), "fresh");
  std::string rest;
  reader >> rest;
  EXPECT_EQ(rest, "ld");
}

}  // namespace
}  // namespace farandole
