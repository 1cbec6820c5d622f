#include "worker/member/program_reports.h"

#include <utility>

namespace farandole {
namespace {

// Ranks that send what was logged by the same tick: what the coordinator gets does not grow with the job.
constexpr int kLoggersATick = 1024;

}  // namespace

ProgramReports::ProgramReports(Conversation* conversation, const LastingParts& parts, const v1::Epoch& epoch, int rank,
                               const std::string& who, WitnessSources sources, ReadFlightRecords read_flight)
    : conversation_(conversation),
      parts_(parts),
      epoch_(epoch.number()),
      rank_(rank),
      size_(epoch.members_size()),
      witness_(parts.stacks, std::move(sources)),
      read_flight_(std::move(read_flight)) {
  if (parts_.logged != nullptr) parts_.logged->BeginEpoch(epoch_);
  if (parts_.timeline == nullptr) return;
  timeline_ = std::make_unique<TimelineRelay>(
      parts_.timeline, rank, who, [conversation] { return conversation->NowNs(); },
      [conversation](v1::TimelineChunk chunk) {
        v1::WorkerMessage message;
        *message.mutable_timeline_chunk() = std::move(chunk);
        conversation->Send(std::move(message));
      });
}

void ProgramReports::Take(const v1::CoordinatorMessage& message) {
  if (message.has_timeline_order() && timeline_ != nullptr) timeline_->Take(message.timeline_order());
  if (!message.has_evidence_wanted()) return;
  witness_.Ask(message.evidence_wanted(), conversation_->NowNs());
  // At once where it can be: ranks that read their records at the same time have the same collectives in them.
  SendEvidence();
}

void ProgramReports::OnTick(uint64_t beat) {
  const int turns = 1 + size_ / kLoggersATick;
  if ((beat + static_cast<uint64_t>(rank_)) % static_cast<uint64_t>(turns) == 0) SendLogged();
  SendEvidence();
}

void ProgramReports::SendEvidence() {
  for (v1::WorkerMessage& answer : witness_.Take(conversation_->NowNs(), read_flight_))
    conversation_->Send(std::move(answer));
}

void ProgramReports::OnAttached() {
  if (parts_.logged != nullptr) parts_.logged->SendAgain();
  if (timeline_ != nullptr) timeline_->Renew();
}

void ProgramReports::Finish() {
  if (timeline_ != nullptr) timeline_->Finish();
  while (parts_.logged != nullptr && parts_.logged->HasUnsent() && conversation_->IsAttached()) SendLogged();
}

void ProgramReports::SendLogged() {
  if (parts_.logged == nullptr || !conversation_->IsAttached()) return;
  v1::WorkerMessage message;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_epoch(epoch_);
  for (v1::LoggedPoints& points : parts_.logged->Take(conversation_->NowNs()))
    *heartbeat->add_logged() = std::move(points);
  if (heartbeat->logged_size() > 0) conversation_->Send(std::move(message));
}

}  // namespace farandole
