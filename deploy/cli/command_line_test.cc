#include "deploy/cli/command_line.h"

#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "deploy/launcher/environment/options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

// A program with two commands: the real options of `run`, and `tool list [--all]`.
class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() : app_("Trains.", "farandole") {
    app_.set_version_flag("--version", "farandole 1.2.3");
    app_.require_subcommand(1);
    CLI::App* run = app_.add_subcommand("run", "Runs.");
    launcher::AddRunOptions(run, &options_);
    run->callback([this] { exit_code_ = 7; });
    CLI::App* tool = app_.add_subcommand("tool", "Looks.");
    tool->require_subcommand(1);
    tool->add_subcommand("list", "Lists.")->add_flag("--all");
  }

  int Run(const Words& arguments) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = RunCommandLine(&app_, arguments, &exit_code_);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  CLI::App app_;
  launcher::RunOptions options_;
  int exit_code_ = 0;
  std::string out_;
  std::string err_;
};

TEST_F(CommandLineTest, ACommandRunsAndGivesTheExitCode) {
  EXPECT_EQ(Run({"run", "-np", "2", "python", "x.py", "--verbose"}), 7);
  EXPECT_EQ(err_, "");
  EXPECT_EQ(options_.command, (Words{"python", "x.py", "--verbose"}));
  EXPECT_FALSE(options_.verbose);
}

TEST_F(CommandLineTest, VersionAndHelpGoToStdout) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out_, "farandole 1.2.3\n");
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("Runs."));
}

TEST_F(CommandLineTest, ACommandsHelpIsItsOwn) {
  EXPECT_EQ(Run({"run", "--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--start-timeout"));
}

TEST_F(CommandLineTest, HelpAfterTheWorkersCommandIsTheWorkers) {
  EXPECT_EQ(Run({"run", "-np", "2", "python", "--help"}), 7);
  EXPECT_EQ(options_.command, (Words{"python", "--help"}));
}

TEST_F(CommandLineTest, AnUnknownCommandNamesTheNearest) {
  EXPECT_EQ(Run({"rnu", "-np", "2"}), 2);
  EXPECT_EQ(err_, "farandole: unknown command 'rnu'; did you mean 'run'? (farandole --help lists what there is)\n");
  EXPECT_EQ(out_, "");
}

TEST_F(CommandLineTest, AnUnknownCommandOfACommandNamesTheNearest) {
  EXPECT_EQ(Run({"tool", "lits"}), 2);
  EXPECT_THAT(err_, HasSubstr("farandole tool: unknown command 'lits'; did you mean 'list'?"));
}

TEST_F(CommandLineTest, AnUnknownOptionNamesTheNearestAndNothingRuns) {
  EXPECT_EQ(Run({"run", "-np", "2", "--output-filenam=x", "python", "x.py"}), 2);
  EXPECT_THAT(err_, HasSubstr("farandole run: unknown option '--output-filenam'; did you mean '--output-filename'?"));
}

TEST_F(CommandLineTest, AnUnknownOptionWithAValueIsFound) {
  EXPECT_EQ(Run({"run", "--nq", "2", "python", "x.py"}), 2);
  EXPECT_THAT(err_, HasSubstr("farandole run: unknown option '--nq'; did you mean '--np'?"));
}

TEST_F(CommandLineTest, WhatIsLikeNothingIsOnlyNamed) {
  EXPECT_EQ(Run({"dashboard"}), 2);
  EXPECT_THAT(err_, HasSubstr("farandole: unknown command 'dashboard' ("));
}

TEST_F(CommandLineTest, AMissingCommandIsSaid) {
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(err_, HasSubstr("subcommand is required"));
}

TEST_F(CommandLineTest, AWrongValueIsNamedWithItsOption) {
  EXPECT_EQ(Run({"run", "-np", "many", "python"}), 2);
  EXPECT_THAT(err_, HasSubstr("--np"));
  EXPECT_THAT(err_, HasSubstr("many"));
}

TEST_F(CommandLineTest, UnderHorovodrunsNameErrorsAndHelpBeginWithIt) {
  app_.name("horovodrun");
  EXPECT_EQ(Run({"run", "--horovod", "--nq", "2", "python"}), 2);
  EXPECT_EQ(err_, "horovodrun: unknown option '--nq'; did you mean '--np'? (horovodrun --help lists what there is)\n");
  EXPECT_EQ(Run({"run", "--horovod", "-np", "many", "python"}), 2);
  EXPECT_THAT(err_, StartsWith("horovodrun: --np"));
  EXPECT_EQ(Run({"run", "--horovod", "--help"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("horovodrun [OPTIONS]"), Not(HasSubstr("horovodrun run"))));
  EXPECT_EQ(NameCommand(app_), "horovodrun");
}

TEST_F(CommandLineTest, TheNumberOfWorkersMayFollowItsOptionAtOnce) {
  for (const char* np : {"-np2", "-np=2", "-n2"}) {
    options_ = launcher::RunOptions();
    EXPECT_EQ(Run({"run", np, "python", "-np3"}), 7) << np << ": " << err_;
    EXPECT_EQ(options_.workers, 2) << np;
    EXPECT_EQ(options_.command, (Words{"python", "-np3"})) << np;
  }
}

TEST(NearestNameTest, LettersMayBeMissingAddedWrongOrSwapped) {
  const Words names = {"run", "serve", "checkpoint"};
  for (const char* word : {"checkpoin", "checkpoints", "chackpoint", "chekcpoint", "checkpoint"}) {
    EXPECT_EQ(NearestName(word, names), "checkpoint") << word;
  }
  EXPECT_EQ(NearestName("server", names), "serve");
  EXPECT_EQ(NearestName("xyz", names), "");
  EXPECT_EQ(NearestName("", names), "");
}

}  // namespace
}  // namespace farandole
