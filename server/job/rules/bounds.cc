#include "server/job/rules/bounds.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text/trace_parent.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

constexpr uint64_t kDayMs = 86'400'000;
// Less than a client waits for one attempt of a call.
constexpr uint64_t kMostHoldMs = 8'000;
constexpr int32_t kMostPriority = 1000;
// Far beyond any, and far from where sums of them end.
constexpr uint64_t kMostGpuBytes = uint64_t{1} << 44;

absl::Status CheckLength(absl::string_view field, absl::string_view value, size_t least, size_t most) {
  if (value.size() >= least && value.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", Count(value.size(), "byte"), "; it must have ", least, " to ", most));
}

absl::Status CheckCount(absl::string_view field, uint64_t count, uint64_t most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " has ", count, " entries; ", most, " is the most"));
}

absl::Status CheckNumber(absl::string_view field, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", least, " to ", most));
}

absl::Status CheckTraceParent(absl::string_view text) {
  if (text.empty() || ParseTraceParent(text).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("launch.traceparent is '", Plain(text, 64), "'; it must be 00-TRACE_ID-SPAN_ID-FLAGS of W3C"));
}

absl::Status CheckGpu(const v1::Gpu& gpu) {
  absl::Status status = CheckNumber("busy_percent of a GPU", gpu.busy_percent(), 0, 100);
  status.Update(CheckNumber("memory_used_bytes of a GPU", gpu.memory_used_bytes(), 0, kMostGpuBytes));
  status.Update(CheckNumber("memory_total_bytes of a GPU", gpu.memory_total_bytes(), 0, kMostGpuBytes));
  status.Update(CheckLength("the name of a GPU", gpu.name(), 0, 96));
  return status;
}

absl::Status CheckRank(absl::string_view field, uint32_t rank, size_t size) {
  if (rank < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", rank, ", and the epoch has ", Count(size, "rank")));
}

absl::Status CheckIncarnation(absl::string_view incarnation) {
  const auto is_hex = [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); };
  if (incarnation.size() == 32 && absl::c_all_of(incarnation, is_hex)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("incarnation is '", Plain(incarnation, 64), "'; it must be 32 hexadecimal digits"));
}

absl::Status CheckMember(const v1::Member& member) {
  if (absl::Status status = CheckIncarnation(member.incarnation()); !status.ok()) return status;
  if (absl::Status status = CheckLength("host_id", member.host_id(), 1, 128); !status.ok()) return status;
  if (absl::Status status = CheckLength("hostname", member.hostname(), 0, 255); !status.ok()) return status;
  if (member.pid() < 1)
    return absl::InvalidArgumentError(absl::StrCat("pid is ", member.pid(), "; it must be at least 1"));
  if (absl::Status status = CheckCount("endpoints", member.endpoints_size(), 16); !status.ok()) return status;
  for (const std::string& endpoint : member.endpoints()) {
    if (absl::Status status = CheckLength("an endpoint", endpoint, 1, 256); !status.ok()) return status;
  }
  if (absl::Status status = CheckNumber("local_slot", member.local_slot(), 0, 65535); !status.ok()) return status;
  return CheckLength("gpu_transport", member.gpu_transport(), 0, 64);
}

absl::Status CheckElastic(const v1::Elastic& elastic, uint32_t wanted_size) {
  const uint32_t min_size = elastic.min_size(), max_size = elastic.max_size();
  if (absl::Status status = CheckNumber("min_size", min_size, 1, wanted_size); !status.ok()) return status;
  if (absl::Status status = CheckNumber("max_size", max_size, wanted_size, 65536); !status.ok()) return status;
  if (absl::Status status = CheckNumber("join_window_ms", elastic.join_window_ms(), 0, 60'000); !status.ok())
    return status;
  if (absl::Status status = CheckNumber("shortage_limit_ms", elastic.shortage_limit_ms(), 1, kDayMs); !status.ok())
    return status;
  if (absl::Status status = CheckNumber("stall_limit_ms", elastic.stall_limit_ms(), 0, kDayMs); !status.ok())
    return status;
  if (absl::Status status = CheckNumber("least_cooldown_ms", elastic.least_cooldown_ms(), 0, kDayMs); !status.ok())
    return status;
  return CheckNumber("most_cooldown_ms", elastic.most_cooldown_ms(), elastic.least_cooldown_ms(), kDayMs);
}

absl::Status CheckStallReport(const v1::StallReport& report) {
  if (absl::Status status = CheckCount("pending", report.pending_size(), 64); !status.ok()) return status;
  if (absl::Status status = CheckLength("last_submitted", report.last_submitted(), 0, 512); !status.ok()) return status;
  for (const v1::PendingTensor& tensor : report.pending()) {
    if (absl::Status status = CheckLength("name", tensor.name(), 1, 512); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckFlight(const v1::FlightRecords& flight) {
  if (absl::Status status = CheckCount("records", flight.records_size(), 512); !status.ok()) return status;
  if (absl::Status status = CheckCount("names", flight.names_size(), 512); !status.ok()) return status;
  for (const std::string& name : flight.names()) {
    if (absl::Status status = CheckLength("name", name, 1, 128); !status.ok()) return status;
  }
  if (absl::Status status = CheckCount("times", flight.times_size(), 512); !status.ok()) return status;
  for (const v1::NameTimes& times : flight.times()) {
    if (absl::Status status = CheckLength("name", times.name(), 1, 128); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckEvidence(const v1::Evidence& evidence) {
  absl::Status status = CheckFlight(evidence.flight());
  status.Update(CheckCount("threads", evidence.threads_size(), 64));
  status.Update(CheckCount("kernel_threads", evidence.kernel_threads_size(), 256));
  status.Update(CheckCount("settings", evidence.settings_size(), 128));
  status.Update(CheckLength("about_stacks", evidence.about_stacks(), 0, 512));
  status.Update(CheckLength("about_native_stacks", evidence.about_native_stacks(), 0, 512));
  for (const v1::ThreadStack& thread : evidence.threads()) {
    status.Update(CheckCount("frames", thread.frames_size(), 100));
    status.Update(CheckCount("native_frames", thread.native_frames_size(), 100));
    status.Update(CheckLength("why_no_native", thread.why_no_native(), 0, 512));
    for (const v1::StackFrame& frame : thread.native_frames()) {
      status.Update(CheckLength("function", frame.function(), 0, 512));
      status.Update(CheckLength("file", frame.file(), 0, 512));
      status.Update(CheckLength("module", frame.module(), 0, 512));
    }
    status.Update(CheckLength("name", thread.name(), 0, 256));
    for (const v1::StackFrame& frame : thread.frames()) {
      status.Update(CheckLength("function", frame.function(), 0, 512));
      status.Update(CheckLength("file", frame.file(), 0, 512));
    }
  }
  for (const v1::KernelThread& thread : evidence.kernel_threads()) {
    status.Update(CheckLength("name", thread.name(), 0, 64));
    status.Update(CheckLength("state", thread.state(), 0, 64));
    status.Update(CheckLength("call", thread.call(), 0, 64));
  }
  for (const std::string& setting : evidence.settings()) status.Update(CheckLength("setting", setting, 0, 1024));
  return status;
}

absl::Status CheckTimelineChunk(const v1::TimelineChunk& chunk) {
  absl::Status status = CheckLength("lines_zlib", chunk.lines_zlib(), 0, 1 << 20);
  // Readers count by it what they take.
  status.Update(CheckNumber("lines_bytes", chunk.lines_bytes(), chunk.lines_zlib().empty() ? 0 : 1, 8 << 20));
  return status;
}

// A column has a number for each pulse, or none.
absl::Status CheckColumn(absl::string_view what, int count, int pulses) {
  if (count == 0 || count == pulses) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the measures' column ", what, " has ", count, " numbers for ", pulses,
                                                 pulses == 1 ? " pulse" : " pulses"));
}

absl::Status CheckMeasures(const v1::Measures& measures, int pulses, size_t size) {
  absl::Status status = CheckColumn("steps", measures.steps_size(), pulses);
  status.Update(CheckColumn("waited_us", measures.waited_us_size(), pulses));
  status.Update(CheckColumn("waited_in_batch_us", measures.waited_in_batch_us_size(), pulses));
  status.Update(CheckColumn("batch_us", measures.batch_us_size(), pulses));
  status.Update(CheckColumn("cpu_us", measures.cpu_us_size(), pulses));
  status.Update(CheckColumn("waiting_us", measures.waiting_us_size(), pulses));
  status.Update(CheckColumn("running_us", measures.running_us_size(), pulses));
  status.Update(CheckColumn("last_slot", measures.last_slot_size(), pulses));
  status.Update(CheckColumn("batch_slot", measures.batch_slot_size(), pulses));
  status.Update(CheckCount("late_ranks", measures.late_ranks_size(), 32));
  status.Update(CheckCount("late_steps", measures.late_steps_size(), 32));
  status.Update(CheckCount("late_us", measures.late_us_size(), 32));
  status.Update(CheckCount("sections", measures.sections_size(), 32));
  for (const std::string& name : measures.sections()) status.Update(CheckLength("a section's name", name, 1, 64));
  if (measures.section_us_size() != measures.sections_size() * pulses) {
    status.Update(absl::InvalidArgumentError(absl::StrCat("the measures have ", measures.section_us_size(),
                                                          " numbers for ", measures.sections_size(), " sections of ",
                                                          pulses, pulses == 1 ? " pulse" : " pulses")));
  }
  status.Update(CheckCount("peer_hosts", measures.peer_hosts_size(), 32));
  for (const int count : {measures.peer_sending_us_size(), measures.peer_bytes_size()}) {
    if (count == measures.peer_hosts_size()) continue;
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("a column of ", Count(measures.peer_hosts_size(), "peer host"), " has ", Count(count, "number"))));
  }
  for (const uint32_t rank : measures.late_ranks()) status.Update(CheckRank("a rank that came last", rank, size));
  return status;
}

absl::Status CheckLogged(const v1::LoggedPoints& logged, uint64_t epoch) {
  if (absl::Status status = CheckCount("logged names", logged.names_size(), 256); !status.ok()) return status;
  if (absl::Status status = CheckCount("logged points", logged.name_size(), 4096); !status.ok()) return status;
  for (const std::string& name : logged.names()) {
    if (absl::Status status = CheckLength("a logged name", name, 1, 128); !status.ok()) return status;
  }
  for (const int count : {logged.step_size(), logged.value_size(), logged.age_ms_size()}) {
    if (count == logged.name_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a column of ", Count(logged.name_size(), "logged point"), " has ", Count(count, "number")));
  }
  if (logged.by_rank_size() != logged.names_size()) {
    return absl::InvalidArgumentError(absl::StrCat("of ", Count(logged.names_size(), "logged name"), ", ",
                                                   logged.by_rank_size(), " say whether they are kept by rank"));
  }
  for (const uint32_t name : logged.name()) {
    if (name < static_cast<uint32_t>(logged.names_size())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the index of a logged name is ", name, " of ", Count(logged.names_size(), "name")));
  }
  for (const uint64_t age_ms : logged.age_ms()) {
    if (absl::Status status = CheckNumber("the age of a logged point in ms", age_ms, 0, 366 * kDayMs); !status.ok())
      return status;
  }
  if (absl::Status status = CheckNumber("logged.first", logged.first(), 1, uint64_t{1} << 62); !status.ok())
    return status;
  return CheckNumber("logged.epoch", logged.epoch(), 0, epoch);
}

absl::Status CheckHeartbeat(const v1::Heartbeat& heartbeat, size_t size) {
  if (absl::Status status = CheckCount("pulses", heartbeat.pulses_size(), size); !status.ok()) return status;
  for (const v1::Pulse& pulse : heartbeat.pulses()) {
    if (absl::Status status = CheckRank("the rank of a pulse", pulse.rank(), size); !status.ok()) return status;
  }
  if (absl::Status status = CheckCount("logged", heartbeat.logged_size(), 8); !status.ok()) return status;
  int points = 0;
  for (const v1::LoggedPoints& logged : heartbeat.logged()) {
    if (absl::Status status = CheckLogged(logged, heartbeat.epoch()); !status.ok()) return status;
    points += logged.name_size();
  }
  // As LoggedQueue sends at once: a point may cost microseconds.
  if (absl::Status status = CheckCount("logged points of one heartbeat", points, 4096); !status.ok()) return status;
  return CheckMeasures(heartbeat.measures(), heartbeat.pulses_size(), size);
}

}  // namespace

absl::Status CheckJobName(absl::string_view job) {
  if (absl::Status status = CheckLength("job", job, 1, 128); !status.ok()) return status;
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  if (job == "." || job == "..")
    return absl::InvalidArgumentError(absl::StrCat("job is '", job, "', which names a folder"));
  if (absl::c_all_of(job, allowed)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("job is '", Plain(job), "'; it may have only letters, digits, '.', '_' and '-'"));
}

absl::Status CheckCreateJob(const v1::CreateJobRequest& request) {
  if (absl::Status status = CheckJobName(request.job()); !status.ok()) return status;
  if (absl::Status status = CheckLength("launch.nonce", request.launch().nonce(), 16, 64); !status.ok()) return status;
  if (absl::Status status = CheckLength("launch.who", request.launch().who(), 1, 256); !status.ok()) return status;
  if (absl::Status status = CheckTraceParent(request.launch().traceparent()); !status.ok()) return status;
  if (absl::Status status = CheckNumber("most_workers", request.most_workers(), 1, 65536); !status.ok()) return status;
  if (absl::Status status = CheckNumber("hold_ms", request.hold_ms(), 0, kMostHoldMs); !status.ok()) return status;
  if (request.priority() >= -kMostPriority && request.priority() <= kMostPriority) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("priority is ", request.priority(), " and must be ", -kMostPriority, " to ", kMostPriority));
}

absl::Status CheckJoin(const v1::JoinRequest& request) {
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the worker speaks protocol version ", request.protocol_version(),
                                                      ", the coordinator ", kProtocolVersion));
  }
  if (absl::Status status = CheckJobName(request.job()); !status.ok()) return status;
  if (absl::Status status = CheckMember(request.member()); !status.ok()) return status;
  if (absl::Status status = CheckNumber("wanted_size", request.wanted_size(), 1, 65536); !status.ok()) return status;
  if (absl::Status status = CheckLength("version", request.version(), 0, 128); !status.ok()) return status;
  if (absl::Status status = CheckNumber("join_timeout_ms", request.join_timeout_ms(), 1, kDayMs); !status.ok())
    return status;
  if (absl::Status status = CheckNumber("stall_warning_ms", request.stall_warning_ms(), 100, kDayMs); !status.ok())
    return status;
  if (!request.has_elastic()) return absl::OkStatus();
  if (!request.predecessor().empty()) {
    if (absl::Status status = CheckIncarnation(request.predecessor()); !status.ok()) return status;
  }
  return CheckElastic(request.elastic(), request.wanted_size());
}

absl::Status CheckReportExit(const v1::ReportExitRequest& request) {
  if (absl::Status status = CheckLength("end", request.end(), 0, 256); !status.ok()) return status;
  return CheckLength("host", request.host(), 0, 255);
}

absl::Status CheckReportFlight(const v1::ReportFlightRequest& request) {
  if (absl::Status status = CheckCount("flights", request.flights_size(), 1024); !status.ok()) return status;
  for (const v1::FlightRecords& flight : request.flights()) {
    if (absl::Status status = CheckFlight(flight); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckHello(const v1::Hello& hello) {
  if (absl::Status status = CheckJobName(hello.job()); !status.ok()) return status;
  if (absl::Status status = CheckIncarnation(hello.incarnation()); !status.ok()) return status;
  if (absl::Status status = CheckCount("slots", hello.slots_size(), 65536); !status.ok()) return status;
  if (absl::Status status = CheckCount("groups", hello.groups_size(), 4096); !status.ok()) return status;
  if (absl::Status status = CheckCount("told", hello.told_size(), 65536); !status.ok()) return status;
  for (const v1::Mismatch& told : hello.told()) {
    if (absl::Status status = CheckLength("name", told.name(), 1, 512); !status.ok()) return status;
  }
  if (absl::Status status = CheckCount("refused", hello.refused_size(), 256); !status.ok()) return status;
  for (const v1::GroupAssigned& refused : hello.refused()) {
    if (absl::Status status = CheckLength("error", refused.error(), 1, 4096); !status.ok()) return status;
  }
  for (const v1::SlotAssigned& slot : hello.slots()) {
    if (absl::Status status = CheckLength("name", slot.name(), 1, 512); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const v1::WorkerMessage& message, size_t size) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kReady:
      return CheckLength("name", message.ready().name(), 1, 512);
    case v1::WorkerMessage::kGroupRequest:
      return CheckCount("ranks", message.group_request().ranks_size(), size);
    case v1::WorkerMessage::kHeartbeat:
      return CheckHeartbeat(message.heartbeat(), size);
    case v1::WorkerMessage::kPeerLost:
      return CheckRank("the lost rank", message.peer_lost().rank(), size);
    case v1::WorkerMessage::kStallReport:
      return CheckStallReport(message.stall_report());
    case v1::WorkerMessage::kEvidence:
      return CheckEvidence(message.evidence());
    case v1::WorkerMessage::kTimelineChunk:
      return CheckTimelineChunk(message.timeline_chunk());
    case v1::WorkerMessage::kHello:
      return absl::InvalidArgumentError("hello came twice on one stream");
    case v1::WorkerMessage::kProcessEnded:
      return CheckLength("the sentence on a process that has ended", message.process_ended().sentence(), 1, 512);
    case v1::WorkerMessage::kDeparting:
      return CheckLength("reason", message.departing().reason(), 0, 1024);
    case v1::WorkerMessage::kLeave:
      for (const uint32_t rank : message.leave().left_ranks()) {
        if (absl::Status status = CheckRank("a rank that has left", rank, size); !status.ok()) return status;
      }
      return absl::OkStatus();
    case v1::WorkerMessage::kGpuStatus:
      return CheckGpu(message.gpu_status().gpu());
    case v1::WorkerMessage::kCheckpointTold:
      return CheckLength("failure", message.checkpoint_told().failure(), 0, 1024);
    case v1::WorkerMessage::kSlotRetired:
      return absl::OkStatus();
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message is empty or of a kind that this coordinator does not know");
}

}  // namespace farandole
