#include "deploy/launcher/environment/options.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// Parses the words behind `run` on the command line, as the binary does.
absl::StatusOr<RunOptions> Parse(const Words& arguments) {
  CLI::App app;
  RunOptions options;
  AddRunOptions(&app, &options);
  Words marked = MarkCommand(app, arguments);
  std::reverse(marked.begin(), marked.end());
  try {
    app.parse(marked);
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  RunEnvironment environment;
  environment.coordinator = "env:7070";
  environment.token_file = "/env/token";
  environment.ca_file = "/env/ca.pem";
  environment.cert_file = "/env/cert.pem";
  environment.key_file = "/env/key.pem";
  const absl::Status complete = CompleteRunOptions(environment, "node-1", &options);
  if (!complete.ok()) return complete;
  return options;
}

std::string ErrorOf(const Words& arguments) { return std::string(Parse(arguments).status().message()); }

TEST(OptionsTest, TheCommandKeepsItsOwnOptions) {
  const absl::StatusOr<RunOptions> options =
      Parse({"-np", "2", "--job", "a.b", "--verbose", "python", "train.py", "-np", "7", "--verbose", "--", "--job=x"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->workers, 2);
  EXPECT_EQ(options->job, "a.b");
  EXPECT_TRUE(options->verbose);
  EXPECT_EQ(options->command, (Words{"python", "train.py", "-np", "7", "--verbose", "--", "--job=x"}));
}

TEST(OptionsTest, AFlagTakesNoValue) {
  const absl::StatusOr<RunOptions> options = Parse({"--verbose", "-np", "2", "--verbose", "--job", "j", "prog"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job, "j");
  EXPECT_EQ(options->command, Words{"prog"});
}

TEST(OptionsTest, TheNumberOfWorkersHasHorovodsNames) {
  for (const Words& form : {Words{"-np", "3"}, Words{"-np=3"}, Words{"--np", "3"}, Words{"--np=3"}, Words{"-n", "3"},
                            Words{"-n3"}, Words{"--num-proc", "3"}, Words{"--num-proc=3"}}) {
    Words arguments = form;
    arguments.insert(arguments.end(), {"prog", "-x"});
    const absl::StatusOr<RunOptions> options = Parse(arguments);
    ASSERT_TRUE(options.ok()) << form[0] << ": " << options.status();
    EXPECT_EQ(options->workers, 3) << form[0];
    EXPECT_EQ(options->command, (Words{"prog", "-x"}));
  }
}

TEST(OptionsTest, TwoDashesMayBeginTheCommand) {
  const absl::StatusOr<RunOptions> options = Parse({"-np", "1", "--", "-odd-name", "--", "x"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->command, (Words{"-odd-name", "--", "x"}));
}

TEST(OptionsTest, OneLocalHostIsAccepted) {
  EXPECT_EQ(Parse({"-H", "localhost:4", "prog"})->workers, 4);
  EXPECT_EQ(Parse({"-np", "2", "-H", "localhost:4", "prog"})->workers, 2);
  EXPECT_THAT(ErrorOf({"-np", "5", "-H", "localhost:4", "prog"}), HasSubstr("-np 5 is more than the 4 slots"));
  EXPECT_THAT(ErrorOf({"-np", "2", "-H", "localhost", "prog"}), HasSubstr("NAME:SLOTS"));
}

TEST(OptionsTest, WorkersAreSpreadOverTheHostsOfOptionOrFile) {
  const absl::StatusOr<RunOptions> all = Parse({"-H", "node-1:2,b:3", "prog"});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->workers, 5);
  ASSERT_EQ(all->shares.size(), 2u);
  EXPECT_TRUE(all->shares[0].is_here);
  EXPECT_EQ(all->shares[1].first, 2);
  const std::string path = testing::TempDir() + "/hosts";
  std::ofstream(path) << "b slots=1\nc slots=1\n";
  EXPECT_EQ(Parse({"--hostfile", path, "-np", "1", "prog"})->shares.size(), 1u);
  EXPECT_EQ(ErrorOf({"--hostfile", path, "-np", "3", "prog"}), "-np 3 is more than the 2 slots of --hostfile " + path);
  EXPECT_EQ(ErrorOf({"--hostfile", "/no/such", "prog"}),
            "--hostfile /no/such cannot be read: No such file or directory");
  EXPECT_THAT(ErrorOf({"--hostfile", path, "-H", "a:1", "prog"}), HasSubstr("excludes"));
  EXPECT_EQ(ErrorOf({"-H", "localhost:1,b:1,node-1:1", "prog"}),
            "hosts localhost and node-1 are both this machine; name it once, with all its slots");
}

TEST(OptionsTest, TheBoundOnNamesIsAnOptionAndAVariable) {
  EXPECT_EQ(Parse({"-np", "2", "prog"})->max_slots, 0u);
  EXPECT_EQ(Parse({"-np", "2", "--max-slots", "40000", "prog"})->max_slots, 40000u);
  EXPECT_THAT(ErrorOf({"-np", "2", "--max-slots", "9", "prog"}), HasSubstr("1024"));
  ASSERT_EQ(setenv("FARANDOLE_MAX_SLOTS", "2048", 1), 0);
  EXPECT_EQ(Parse({"-np", "2", "prog"})->max_slots, 2048u);
  EXPECT_EQ(Parse({"-np", "2", "--max-slots", "40000", "prog"})->max_slots, 40000u);
  unsetenv("FARANDOLE_MAX_SLOTS");
}

TEST(OptionsTest, ElasticJobsHaveHorovodsNames) {
  const absl::StatusOr<RunOptions> options =
      Parse({"-np", "3", "--min-np", "2", "--max-np", "4", "--elastic-timeout", "30", "--reset-limit", "5",
             "--blacklist-cooldown-range", "10", "100", "python", "train.py", "--min-np", "7"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->is_elastic());
  EXPECT_EQ(options->workers, 3);
  EXPECT_EQ(options->min_workers, 2);
  EXPECT_EQ(options->max_workers, 4);
  EXPECT_EQ(options->elastic_timeout_s, 30);
  EXPECT_EQ(options->reset_limit, 5);
  EXPECT_EQ(options->cooldown_s, (std::vector<int>{10, 100}));
  EXPECT_EQ(options->command, (Words{"python", "train.py", "--min-np", "7"}));
  EXPECT_EQ(Parse({"--min-num-proc", "2", "--max-num-proc=4", "prog"})->max_workers, 4);
  EXPECT_FALSE(Parse({"-np", "3", "prog"})->is_elastic());
}

TEST(OptionsTest, AnElasticJobsBoundsFollowFromWhatIsGiven) {
  const absl::StatusOr<RunOptions> least = Parse({"--min-np", "2", "prog"});
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->workers, 2);
  EXPECT_EQ(least->max_workers, 2);
  const absl::StatusOr<RunOptions> most = Parse({"-np", "2", "--max-np", "4", "prog"});
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->min_workers, 2);
  const absl::StatusOr<RunOptions> hosts = Parse({"--min-np", "2", "-H", "a:4,b:4", "prog"});
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(hosts->workers, 8);
  EXPECT_EQ(hosts->max_workers, 8);
  EXPECT_EQ(hosts->slots.size(), 2u);
  const absl::StatusOr<RunOptions> script = Parse({"-np", "2", "--host-discovery-script", "./hosts -a", "prog"});
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_EQ(script->min_workers, 2);
  EXPECT_EQ(script->max_workers, 4096);
  EXPECT_EQ(script->discovery, "./hosts -a");
}

TEST(OptionsTest, ContradictionsOfAnElasticJobNameBothValues) {
  EXPECT_EQ(ErrorOf({"-np", "2", "--min-np", "3", "prog"}), "--min-np 3 is more than -np 2");
  EXPECT_EQ(ErrorOf({"-np", "5", "--max-np", "4", "prog"}), "-np 5 is more than --max-np 4");
  EXPECT_EQ(ErrorOf({"--min-np", "5", "--max-np", "4", "prog"}), "-np 5 is more than --max-np 4");
  EXPECT_EQ(ErrorOf({"--min-np", "1", "-np", "5", "-H", "a:4", "prog"}),
            "-np 5 is more than the 4 slots of --hosts a:4");
  EXPECT_EQ(ErrorOf({"--min-np", "2", "--blacklist-cooldown-range", "9", "8", "prog"}),
            "--blacklist-cooldown-range: MIN 9 is more than MAX 8");
  EXPECT_EQ(ErrorOf({"-np", "2", "--reset-limit", "3", "prog"}),
            "--reset-limit 3 is for elastic jobs: give --min-np, --max-np or --host-discovery-script as well");
  EXPECT_THAT(ErrorOf({"--max-np", "4", "prog"}), HasSubstr("-np is missing"));
  EXPECT_THAT(ErrorOf({"--host-discovery-script", "x", "-H", "a:1", "prog"}), HasSubstr("excludes"));
}

TEST(OptionsTest, VariablesForTheWorkersMayBeRepeated) {
  const absl::StatusOr<RunOptions> options = Parse({"-x", "A", "-x", "B=c d", "-np", "1", "prog", "-x", "mine"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->exported, (Words{"A", "B=c d"}));
  EXPECT_EQ(options->command, (Words{"prog", "-x", "mine"}));
  EXPECT_THAT(ErrorOf({"-x", "=b", "-np", "1", "prog"}), HasSubstr("-x =b"));
}

TEST(OptionsTest, AttachTakesTheCoordinatorOfTheEnvironmentWhereNoneIsNamed) {
  const absl::StatusOr<RunOptions> options = Parse({"-np", "1", "--attach", "prog"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->coordinator, "env:7070");
  EXPECT_EQ(options->token_file, "/env/token");
  EXPECT_EQ(options->ca_file, "/env/ca.pem");
  EXPECT_EQ(options->cert_file, "/env/cert.pem");
  EXPECT_EQ(options->key_file, "/env/key.pem");
  const absl::StatusOr<RunOptions> named =
      Parse({"-np", "1", "--attach", "--coordinator", "h:1", "--token-file", "/t", "prog"});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->coordinator, "h:1");
  EXPECT_EQ(named->ca_file, "") << "that of the environment belongs to another coordinator";
  EXPECT_EQ(named->cert_file, "");
  EXPECT_EQ(Parse({"-np", "1", "prog"})->coordinator, "") << "without --attach this run has its own";
}

TEST(OptionsTest, ACertificateStandsForATokenAndComesWithItsKeyAndAnAuthority) {
  const Words start = {"-np", "1", "--coordinator", "h:1"};
  const auto with = [&start](Words more) {
    more.insert(more.begin(), start.begin(), start.end());
    more.emplace_back("prog");
    return more;
  };
  const auto options = Parse(with({"--ca", "/ca.pem", "--cert", "/c.pem", "--key", "/k.pem"}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->token_file, "");
  EXPECT_EQ(options->cert_file, "/c.pem");
  EXPECT_EQ(options->key_file, "/k.pem");
  EXPECT_EQ(ErrorOf(with({"--ca", "/ca.pem", "--cert", "/c.pem"})),
            "--cert and --key belong together; --key is missing");
  EXPECT_EQ(ErrorOf(with({"--ca", "/ca.pem", "--key", "/k.pem"})),
            "--cert and --key belong together; --cert is missing");
  EXPECT_THAT(ErrorOf(with({"--cert", "/c.pem", "--key", "/k.pem"})), HasSubstr("--cert /c.pem needs --ca as well"));
  EXPECT_THAT(ErrorOf(with({})), HasSubstr("or a certificate: --cert and --key"));
  EXPECT_EQ(ErrorOf({"-np", "2", "--cert", "/c.pem", "prog"}), "--cert belongs to a --coordinator");
}

TEST(OptionsTest, WhatIsMissingOrWrongIsNamed) {
  EXPECT_THAT(ErrorOf({"-np", "2"}), HasSubstr("no command is given"));
  EXPECT_THAT(ErrorOf({"prog"}), HasSubstr("-np is missing"));
  EXPECT_THAT(ErrorOf({"-np", "0", "prog"}), HasSubstr("0"));
  EXPECT_THAT(ErrorOf({"-np", "two", "prog"}), HasSubstr("two"));
  EXPECT_THAT(ErrorOf({"-np", "2", "--job", "a/b", "prog"}), HasSubstr("--job 'a/b'"));
  EXPECT_THAT(ErrorOf({"-np", "2", "--job", "..", "prog"}), HasSubstr("--job '..'"));
  EXPECT_THAT(ErrorOf({"-np", "2", "--job", std::string(129, 'j'), "prog"}), HasSubstr("1 to 128 characters"));
  EXPECT_THAT(ErrorOf({"-np", "2", "--coordinator", "h:1", "prog"}), HasSubstr("--token-file"));
  EXPECT_EQ(ErrorOf({"-np", "2", "--ca", "/ca.pem", "prog"}), "--ca belongs to a --coordinator");
  EXPECT_THAT(ErrorOf({"-np", "2", "--start-timeout", "-1", "prog"}), HasSubstr("-1"));
}

TEST(OptionsTest, TheJobIsNamedAfterTheScript) {
  EXPECT_EQ(DefaultJobName({"python", "examples/train.py", "--lr", "0.1"}), "train");
  EXPECT_EQ(DefaultJobName({"/usr/bin/python3.11", "-u", "-W", "ignore", "my train.v2.py"}), "my-train.v2");
  EXPECT_EQ(DefaultJobName({"python", "-m", "package.train"}), "package.train");
  EXPECT_EQ(DefaultJobName({"python3.11", "-c", "print(1)"}), "python3.11");
  EXPECT_EQ(DefaultJobName({"python"}), "python");
  EXPECT_EQ(DefaultJobName({"sh", "-c", "exit 3"}), "sh");
  EXPECT_EQ(DefaultJobName({"./build/trainer"}), "trainer");
  EXPECT_EQ(DefaultJobName({"./run.sh"}), "run");
  EXPECT_EQ(DefaultJobName({"bash", ".hidden.sh"}), "hidden");
  EXPECT_EQ(DefaultJobName({"./..."}), "job");
  EXPECT_EQ(DefaultJobName({std::string(500, 'x')}).size(), 120u);
}

}  // namespace
}  // namespace farandole::launcher
