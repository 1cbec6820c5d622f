#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "deploy/doctor/finding.h"
#include "deploy/doctor/frameworks.h"
#include "deploy/doctor/machine.h"
#include "deploy/doctor/program_output.h"
#include "deploy/doctor/transports.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::doctor {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kEnvironment = {"PATH=/usr/local/bin:/usr/bin:/bin"};

const Finding* Find(const Findings& findings, const std::string& subject) {
  for (const Finding& finding : findings) {
    if (finding.subject == subject) return &finding;
  }
  return nullptr;
}

TEST(ProgramOutputTest, OutputAndExitCodeAreTold) {
  const auto output = RunProgram({"sh", "-c", "echo out; echo err >&2; exit 3"}, kEnvironment, absl::Seconds(60));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->text, "out\nerr\n");
  EXPECT_EQ(output->exit_code, 3);
  EXPECT_EQ(RunProgram({"sh", "-c", "kill -9 $$"}, kEnvironment, absl::Seconds(60))->exit_code, 137);
}

TEST(ProgramOutputTest, WhoTakesTooLongIsKilledWithWhatItStarted) {
  const std::string pid_file = ::testing::TempDir() + "/pid";
  const auto output =
      RunProgram({"sh", "-c", "sleep 1000 & echo $! >" + pid_file + "; wait"}, kEnvironment, absl::Milliseconds(500));
  EXPECT_EQ(output.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(output.status().message()), HasSubstr("sh was stopped: it took longer than 500ms"));
  // Nothing in it: it came to nothing in that time.
  int pid = 0;
  std::ifstream(pid_file) >> pid;
  if (pid == 0) return;
  struct pollfd end = {static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  if (end.fd < 0) return;  // reaped already
  EXPECT_EQ(poll(&end, 1, 60'000), 1);
  close(end.fd);
}

TEST(ProgramOutputTest, MuchOutputIsCutAndAMissingProgramNamed) {
  const auto much = RunProgram({"sh", "-c", "head -c 3000000 /dev/zero"}, kEnvironment, absl::Seconds(60));
  ASSERT_TRUE(much.ok()) << much.status();
  EXPECT_EQ(much->text.size(), size_t{1} << 20);
  const absl::Status missing = RunProgram({"no-such-program"}, kEnvironment, absl::Seconds(60)).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no-such-program"));
}

TEST(FrameworksTest, WhatPythonSaysIsSorted) {
  const Findings findings =
      ReadFrameworks("python3", "python 3.11.2\ntorch 2.13.0\nnumpy 2.4.6\nfarandole /x/farandole\n");
  EXPECT_EQ(Find(findings, "python")->text, "3.11.2 (python3)");
  EXPECT_EQ(Find(findings, "frameworks")->text, "torch 2.13.0, numpy 2.4.6");
  EXPECT_EQ(Find(findings, "package")->text, "farandole in /x/farandole");
  EXPECT_EQ(Find(findings, "horovod"), nullptr);
}

TEST(FrameworksTest, WhatIsMissingIsAWarningWithAdvice) {
  const Findings findings = ReadFrameworks("python3", "python 3.11.2\nincomplete /x\nhorovod 0.28\n");
  for (const char* subject : {"frameworks", "package", "horovod"}) {
    ASSERT_NE(Find(findings, subject), nullptr) << subject;
    EXPECT_EQ(Find(findings, subject)->level, Finding::Level::kWarn) << subject;
    EXPECT_NE(Find(findings, subject)->advice, "") << subject;
  }
  const Findings broken = ReadFrameworks("python3", "Traceback:\nImportError: no module\n");
  EXPECT_EQ(broken[0].text, "python3 does not work: ImportError: no module");
}

TEST(FrameworksTest, AFrameworkThatCannotBeUsedIsNamedWithTheReason) {
  const std::string old = "python 3.11.2\nmxnet 1.9.1\nnumpy 2.4.6\ntensorflow 2.12.1\njax 0.10.2\n";
  const Findings findings = ReadFrameworks("python3", old);
  ASSERT_NE(Find(findings, "mxnet"), nullptr);
  EXPECT_EQ(Find(findings, "mxnet")->text, "farandole.mxnet needs numpy before 1.24, and this Python has 2.4.6");
  ASSERT_NE(Find(findings, "tensorflow"), nullptr);
  EXPECT_EQ(Find(findings, "tensorflow")->text,
            "farandole.tensorflow needs tensorflow from 2.13 on, and this Python has 2.12.1");
  EXPECT_EQ(Find(findings, "jax"), nullptr);
  const auto is_of_tensorflow = [](const Finding& finding) { return finding.subject == "tensorflow"; };
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(), is_of_tensorflow), 1) << "XLA does not matter as well";
  const Findings fine = ReadFrameworks("python3", "python 3.11.2\nmxnet 1.9.1\nnumpy 1.23.5\ntensorflow 2.13.0rc1\n");
  EXPECT_EQ(Find(fine, "mxnet"), nullptr);
  ASSERT_NE(Find(fine, "tensorflow"), nullptr);
  EXPECT_THAT(Find(fine, "tensorflow")->text, HasSubstr("jit_compile"));
  const Findings young = ReadFrameworks("python3", "python 3.12.1\nmxnet 1.9.1\nnumpy 1.23.5\n");
  ASSERT_NE(Find(young, "mxnet"), nullptr);
  EXPECT_EQ(Find(young, "mxnet")->advice, "use a Python up to 3.11");
}

TEST(FrameworksTest, KerasAndWhatXlaNeedsAreTold) {
  const Findings old = ReadFrameworks("python3", "python 3.11.2\ntensorflow 2.15.1\nkeras 2.15.0\n");
  ASSERT_NE(Find(old, "keras"), nullptr);
  EXPECT_EQ(Find(old, "keras")->text, "farandole.keras needs keras from 3 on, and this Python has 2.15.0");
  EXPECT_THAT(Find(old, "keras")->advice, HasSubstr("farandole.tensorflow.keras"));
  ASSERT_NE(Find(old, "tensorflow"), nullptr);
  EXPECT_THAT(Find(old, "tensorflow")->text, HasSubstr("jit_compile=True needs tensorflow from 2.21 on"));
  const Findings fine = ReadFrameworks("python3", "python 3.11.2\ntensorflow 2.21.0\nkeras 3.15.1\ntf-keras 2.21.0\n");
  EXPECT_EQ(Find(fine, "frameworks")->text, "tensorflow 2.21.0, keras 3.15.1, tf-keras 2.21.0");
  EXPECT_EQ(Find(fine, "keras"), nullptr);
  EXPECT_EQ(Find(fine, "tensorflow"), nullptr);
}

TEST(FrameworksTest, UsableFrameworksAreThoseWhoseModuleCanBeImported) {
  const auto why_not = [](const std::string& written) {
    std::map<std::string, std::string> reasons;
    for (const FrameworkUse& use : ReadUsableFrameworks("python3", written)) reasons[use.name] = use.why_not;
    return reasons;
  };
  const std::string packages =
      "python 3.11.2\ntorch 2.13.0\ntensorflow 2.19.1\nkeras 2.15.0\nmxnet 1.9.1\nnumpy 2.4.6\n";
  const auto mixed = why_not(packages + "farandole /x/farandole\n");
  EXPECT_EQ(mixed.at("PyTorch"), "");
  EXPECT_EQ(mixed.at("TensorFlow"), "") << "XLA alone does not work";
  EXPECT_EQ(mixed.at("MXNet"), "farandole.mxnet needs numpy before 1.24, and this Python has 2.4.6");
  EXPECT_EQ(mixed.at("Keras"), "farandole.keras needs keras from 3 on, and this Python has 2.15.0");
  EXPECT_EQ(mixed.at("JAX"), "not installed");
  for (const auto& [name, reason] : why_not(packages)) EXPECT_EQ(reason, "python3 cannot import farandole") << name;
  for (const auto& [name, reason] : why_not("no such file\n")) EXPECT_EQ(reason, "python3 does not work") << name;
}

TEST(FrameworksTest, ARealPythonIsAskedWithoutImports) {
  const Findings findings = CheckFrameworks("python3", kEnvironment, absl::Seconds(60));
  EXPECT_EQ(Find(findings, "python")->level, Finding::Level::kOk) << findings[0].text;
  EXPECT_EQ(CheckFrameworks("no-such-python", kEnvironment, absl::Seconds(60))[0].level, Finding::Level::kWarn);
}

TEST(FrameworksTest, ThePythonBesideTheProgramGoesBeforeThatOfThePath) {
  std::string root = (std::filesystem::path(::testing::TempDir()) / "prefix.XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::string python = root + "/bin/python3";
  const std::string packed = root + "/lib/python3.11/site-packages/farandole/_bin/farandole";
  std::filesystem::create_directories(root + "/bin");
  std::filesystem::create_directories(std::filesystem::path(packed).parent_path());
  EXPECT_EQ(PythonOf(root + "/bin/farandole"), "python3") << "none is there";
  EXPECT_EQ(PythonOf(packed), "python3");
  EXPECT_EQ(PythonOf(""), "python3");
  std::ofstream(python) << "#!/bin/sh\n";
  EXPECT_EQ(PythonOf(root + "/bin/farandole"), "python3") << "it cannot be executed";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  EXPECT_EQ(PythonOf(root + "/bin/farandole"), python) << "in an environment's bin";
  EXPECT_EQ(PythonOf(packed), python) << "in the wheel's package";
  EXPECT_EQ(PythonOf("/usr/lib/elsewhere/farandole"), "python3");
}

TEST(FrameworksTest, TheSdksAreThoseOfTheProgramsPrefixOrPackage) {
  for (const auto& [program, sdk, library] :
       {std::tuple("bin/farandole", ".", "lib"), std::tuple("_bin/farandole", "_sdk", "_lib")}) {
    std::string root = (std::filesystem::path(::testing::TempDir()) / "sdk.XXXXXX").string();
    ASSERT_NE(mkdtemp(root.data()), nullptr);
    const std::string path = root + "/" + program;
    const auto all_are = [&](Finding::Level level, const std::string& words) {
      const Findings found = CheckSdks(path);
      ASSERT_EQ(found.size(), 2u);
      for (const Finding& finding : found) {
        EXPECT_EQ(finding.level, level) << finding.text;
        EXPECT_THAT(finding.text, HasSubstr(words));
      }
    };
    all_are(Finding::Level::kOk, "no SDK");
    for (const char* file : {"include/farandole/farandole.h", "share/farandole/go/go.mod"}) {
      const std::filesystem::path placed = root + "/" + sdk + "/" + file;
      std::filesystem::create_directories(placed.parent_path());
      std::ofstream(placed) << "\n";
    }
    std::filesystem::create_directories(root + "/" + library);
    all_are(Finding::Level::kWarn, "lacks");
    std::ofstream(root + "/" + library + "/libfarandole.so") << "\n";
    all_are(Finding::Level::kOk, root);
    all_are(Finding::Level::kOk, ", without the control plane's client");
    for (const char* file : {"include/farandole/client.h", "share/farandole/go/client/go.mod"}) {
      const std::filesystem::path placed = root + "/" + sdk + "/" + file;
      std::filesystem::create_directories(placed.parent_path());
      std::ofstream(placed) << "\n";
    }
    all_are(Finding::Level::kOk, ", with the control plane's client");
  }
}

TEST(MachineTest, TheProcessorsFeaturesAreReadFromItsFlags) {
  EXPECT_EQ(ReadFeatures("model : x\nflags\t\t: fpu avx2 f16c\nflags : fpu\n").text, "AVX2 and F16C");
  EXPECT_THAT(ReadFeatures("flags : avx512f avx512bw avx512dq avx512vl f16c\n").text, HasSubstr("AVX-512"));
  EXPECT_EQ(ReadFeatures("flags : fpu avx512f\n").level, Finding::Level::kWarn);
  EXPECT_EQ(ReadFeatures("").level, Finding::Level::kWarn);
}

TEST(MachineTest, TheTightestControlGroupCounts) {
  std::string root = ::testing::TempDir() + "/cgroup.XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/a/b");
  std::ofstream(root + "/a/pids.max") << "500\n";
  std::ofstream(root + "/a/b/pids.max") << "max\n";
  EXPECT_EQ(MostProcesses("1:name=x:/\n0::/a/b\n", root), 500u);
  std::ofstream(root + "/a/b/pids.max") << "7\n";
  EXPECT_EQ(MostProcesses("0::/a/b\n", root), 7u);
  EXPECT_EQ(MostProcesses("0::/\n", root), std::nullopt);
  EXPECT_EQ(MostProcesses("", root), std::nullopt);
}

TEST(MachineTest, TheStateDirectoryMustBeWritable) {
  EXPECT_EQ(CheckStateHome({::testing::TempDir() + "/not/there/yet", ""})[0].level, Finding::Level::kOk);
  const Findings elsewhere = CheckStateHome({::testing::TempDir(), "HOME is not set, so it is kept elsewhere"});
  EXPECT_EQ(elsewhere[0].level, Finding::Level::kWarn);
  EXPECT_EQ(elsewhere[0].text, "HOME is not set, so it is kept elsewhere");
}

TEST(TransportsTest, WhatThisMachineHasToHaveIsThere) {
  const Findings findings = CheckTransports();
  for (const char* subject : {"shm", "pidfd", "tcp"}) {
    ASSERT_NE(Find(findings, subject), nullptr) << subject;
    EXPECT_EQ(Find(findings, subject)->level, Finding::Level::kOk) << Find(findings, subject)->text;
  }
  for (const char* subject : {"gloo", "nccl", "ptrace"}) EXPECT_NE(Find(findings, subject), nullptr) << subject;
  bool has_loopback = false;
  for (const Finding& finding : CheckNetwork())
    has_loopback = has_loopback || finding.text.find("127.0.0.1") != std::string::npos;
  EXPECT_TRUE(has_loopback);
  EXPECT_EQ(CheckSsh(kEnvironment).size(), 1u);
}

}  // namespace
}  // namespace farandole::doctor
