#include "server/job/spans/run_trace.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

// Stories of whole jobs are in server/job/testdata/trace*.txt.
class RunTraceTest : public ::testing::Test {
 protected:
  RunTraceTest() {
    record_.set_tenant("acme");
    record_.set_job("mnist");
  }

  void Enter(v1::JobState state, const std::string& reason = "because") {
    const v1::JobState before = record_.state();
    record_.set_state(state);
    record_.set_reason(reason);
    trace_.Enter(before, now_);
  }
  void Form(int size) {
    record_.mutable_epoch()->set_number(record_.epoch().number() + 1);
    record_.mutable_epoch()->clear_members();
    for (int rank = 0; rank < size; ++rank) record_.mutable_epoch()->add_members()->set_hostname(Host(rank));
    record_.set_size(static_cast<uint32_t>(size));
    Enter(v1::JOB_STATE_RUNNING);
  }
  static std::string Host(int rank) { return "host" + std::to_string(1000 + rank); }
  static std::vector<std::string> Names(const std::vector<Span>& spans) {
    std::vector<std::string> names;
    for (const Span& span : spans) names.push_back(span.name);
    return names;
  }
  template <typename T>
  static T Get(const Span& span, const std::string& key) {
    for (const SpanAttribute& attribute : span.attributes) {
      if (attribute.key == key) return std::get<T>(attribute.value);
    }
    ADD_FAILURE() << span.name << " has no " << key;
    return T();
  }

  v1::JobRecord record_;
  absl::Time now_ = kStart;
  int ids_ = 0;
  RunTrace trace_{&record_, [this](size_t bytes) { return std::string(bytes, static_cast<char>(++ids_)); }};
};

TEST_F(RunTraceTest, SpansOfARunHaveItsTraceAndTheirOwnIds) {
  for (int run = 0; run < 2; ++run) {
    Enter(v1::JOB_STATE_FORMING);
    Form(2);
    trace_.BeginCheckpoint("checkpoint", 1, 1, now_);
    Enter(v1::JOB_STATE_FINISHED);
  }
  const std::vector<Span> spans = trace_.TakeSpans();
  EXPECT_THAT(Names(spans), ElementsAre("form", "epoch", "checkpoint", "run", "form", "epoch", "checkpoint", "run"));
  std::set<std::string> ids;
  for (const Span& span : spans) {
    EXPECT_EQ(span.id.size(), 8u);
    EXPECT_TRUE(ids.insert(span.id).second);
    EXPECT_EQ(span.trace_id.size(), 16u);
    EXPECT_EQ(Get<std::string>(span, "farandole.tenant"), "acme");
    EXPECT_EQ(Get<std::string>(span, "farandole.job"), "mnist");
  }
  EXPECT_EQ(spans[0].trace_id, spans[3].trace_id);
  EXPECT_NE(spans[0].trace_id, spans[4].trace_id);
  EXPECT_EQ(spans[0].parent_id, spans[3].id);
  EXPECT_EQ(spans[1].parent_id, spans[3].id);
  EXPECT_EQ(spans[2].parent_id, spans[1].id) << "the checkpoint is below its epoch";
  EXPECT_EQ(spans[3].parent_id, "");
  EXPECT_THAT(trace_.TakeSpans(), IsEmpty());
}

TEST_F(RunTraceTest, EventsAndHostsAreBounded) {
  Enter(v1::JOB_STATE_FORMING);
  const int size = static_cast<int>(RunTrace::kMostEvents) + 2;
  for (int rank = 0; rank < size; ++rank) {
    v1::Member member;
    member.set_hostname(Host(rank));
    trace_.NoteJoin(member, now_);
  }
  Form(size);
  Enter(v1::JOB_STATE_FAILED, "enough");
  const std::vector<Span> spans = trace_.TakeSpans();
  EXPECT_EQ(spans[0].events.size(), RunTrace::kMostEvents);
  EXPECT_EQ(spans[0].dropped_events, 2u);
  EXPECT_EQ(Get<int64_t>(spans[1], "farandole.hosts"), size);
  EXPECT_EQ(Get<std::vector<std::string>>(spans[1], "farandole.host_names").size(), RunTrace::kMostHosts);
  EXPECT_EQ(spans[1].dropped_events, 0u);
  EXPECT_TRUE(spans[1].is_error);
  EXPECT_EQ(spans[2].error, "enough");
}

TEST_F(RunTraceTest, ASpanDoesNotEndBeforeItBegins) {
  Enter(v1::JOB_STATE_FORMING);
  now_ -= absl::Hours(1);
  Form(1);
  const std::vector<Span> spans = trace_.TakeSpans();
  ASSERT_THAT(Names(spans), ElementsAre("form"));
  EXPECT_EQ(spans[0].began, kStart);
  EXPECT_EQ(spans[0].ended, kStart) << "the wall clock was set back";
}

TEST_F(RunTraceTest, ARunThatGoesOnWhenSpansAreSwitchedOnIsNotTraced) {
  record_.set_state(v1::JOB_STATE_RUNNING);
  trace_.BeginCheckpoint("checkpoint", 1, 1, now_);
  v1::Checkpoint checkpoint;
  checkpoint.set_token(1);
  trace_.CommitCheckpoint(checkpoint, now_);
  Enter(v1::JOB_STATE_FORMING);
  Form(1);
  Enter(v1::JOB_STATE_FINISHED);
  EXPECT_THAT(trace_.TakeSpans(), IsEmpty());
  Enter(v1::JOB_STATE_FORMING);
  Form(1);
  Enter(v1::JOB_STATE_FINISHED);
  EXPECT_THAT(Names(trace_.TakeSpans()), ElementsAre("form", "epoch", "run"));
}

TEST_F(RunTraceTest, TimesOfALaunchThatCannotBeAreNotBelieved) {
  v1::Launch* const launch = record_.mutable_launch();
  launch->set_nonce("one");
  launch->set_since_unix_ms(absl::ToUnixMillis(now_ + absl::Hours(1)));
  launch->set_queued_unix_ms(absl::ToUnixMillis(now_ + absl::Hours(2)));
  Enter(v1::JOB_STATE_FORMING);
  EXPECT_THAT(trace_.TakeSpans(), IsEmpty()) << "neither a wait nor a launch";
}

TEST_F(RunTraceTest, NothingIsAddedToTheRecordWhereNothingIsTraced) {
  trace_.NoteJoin(v1::Member(), now_);
  trace_.NoteRestart(now_);
  trace_.GiveUpCheckpoint(7, now_);
  EXPECT_FALSE(record_.has_trace());
}

}  // namespace
}  // namespace farandole
