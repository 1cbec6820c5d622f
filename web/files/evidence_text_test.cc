#include "web/files/evidence_text.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "web/files/tar_gz.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

v1::DiagnoseResponse Stuck() {
  v1::DiagnoseResponse answer;
  answer.set_epoch(1);
  answer.set_size(3);
  answer.set_sentence("rank 2 has not submitted allreduce 'b'");
  v1::FlightWait* const wait = answer.add_waits();
  wait->set_name("b\x1b[2J");
  wait->add_waiting(0);
  wait->add_waiting(1);
  wait->add_missing(2);
  wait->set_waited_us(12'340'000);
  for (const uint32_t rank : {0u, 1u, 2u}) answer.add_ranks()->set_rank(rank);
  v1::StackGroup* const group = answer.add_stacks();
  group->add_ranks(0);
  group->add_ranks(1);
  group->set_is_dominant(true);
  v1::StackFrame* const frame = group->add_frames();
  frame->set_function("wait");
  frame->set_file("train.py");
  frame->set_line(7);
  answer.mutable_ranks(2)->set_silence("it did not answer within 4 s");
  return answer;
}

TEST(EvidenceTextTest, VerdictGraphStacksAndSilentRanksAreShown) {
  EXPECT_EQ(ShowEvidence(Stuck()),
            "epoch 1, 3 ranks, 3 asked\n"
            "rank 2 has not submitted allreduce 'b'\n"
            "\nwho waits for whom\n"
            "  ranks 0,1 --- allreduce 'b?[2J', 12.3 s --> rank 2\n"
            "\nstack of ranks 0,1 (most), \n"
            "  wait (train.py:7)\n"
            "\nrank 2: it did not answer within 4 s\n");
}

TEST(EvidenceTextTest, CallsOfCompiledCodeStandAboveTheLineThatMadeThem) {
  v1::DiagnoseResponse answer = Stuck();
  for (const char* function : {"nanosleep", "sleep"}) {
    v1::StackFrame* const frame = answer.mutable_stacks(0)->add_native_frames();
    frame->set_function(function);
    frame->set_module("libc.so.6");
  }
  v1::StackGroup* const native = answer.add_stacks();
  native->add_ranks(2);
  native->add_native_frames()->set_function("load");
  native->mutable_native_frames(0)->set_file("train.cc");
  native->mutable_native_frames(0)->set_line(12);
  v1::Evidence* const evidence = answer.mutable_ranks(2)->mutable_evidence();
  evidence->set_about_native_stacks("read by ptrace");
  EXPECT_THAT(ShowEvidence(answer), HasSubstr("stack of ranks 0,1 (most), \n"
                                              "  nanosleep (libc.so.6)\n"
                                              "  sleep (libc.so.6)\n"
                                              "  wait (train.py:7)\n"
                                              "\nstack of rank 2, read by ptrace\n"
                                              "  load (train.cc:12)\n"));
}

TEST(EvidenceTextTest, WithoutNativeStacksTheReasonIsGiven) {
  v1::DiagnoseResponse answer = Stuck();
  for (const int at : {0, 1})
    answer.mutable_ranks(at)->mutable_evidence()->set_about_native_stacks("kernel.yama.ptrace_scope is 3");
  v1::ThreadStack* const thread = answer.mutable_ranks(0)->mutable_evidence()->add_threads();
  EXPECT_THAT(ShowEvidence(answer), HasSubstr("ranks 0,1: no native stacks: kernel.yama.ptrace_scope is 3\n"));
  thread->set_why_no_native("it is in the kernel");
  EXPECT_THAT(ShowEvidence(answer), HasSubstr("\nrank 1: no native stacks: kernel.yama.ptrace_scope is 3\n"));
  EXPECT_THAT(ShowEvidence(answer), HasSubstr("  compiled code: it is in the kernel\n"));
}

TEST(EvidenceTextTest, AJobThatGoesOnIsSaidToDoSo) {
  EXPECT_THAT(ShowEvidence(v1::DiagnoseResponse()), HasSubstr("no rank waits for another in a collective\n"));
}

TEST(EvidenceTextTest, TheJsonHasTheProtosNames) {
  EXPECT_THAT(EvidenceJson(Stuck()), HasSubstr("\"waited_us\": \"12340000\""));
  EXPECT_THAT(EvidenceJson(Stuck()), HasSubstr("\"is_dominant\": true"));
}

TEST(TarGzTest, TarReadsTheFilesBack) {
  const std::string directory = testing::TempDir();
  const std::string path = directory + "/evidence.tar.gz";
  const std::string big(100'000, 'x');
  const auto packed =
      PackTarGz({{"d/empty", ""}, {"d/a.txt", "some text\n"}, {"d/big", big}}, absl::FromUnixSeconds(7));
  ASSERT_TRUE(packed.ok());
  std::ofstream(path, std::ios::binary) << *packed;
  ASSERT_EQ(system(("cd '" + directory + "' && tar xzf evidence.tar.gz").c_str()), 0);
  std::ifstream file(directory + "/d/big");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), big);
  std::ifstream text(directory + "/d/a.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}), "some text\n");
}

}  // namespace
}  // namespace farandole
