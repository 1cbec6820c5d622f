#include "worker/transport/hosts/hosts_allreduce.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

bool AllComplete(const std::vector<Transfer>& transfers) {
  return std::all_of(transfers.begin(), transfers.end(), [](const Transfer& transfer) { return transfer.complete; });
}

char* Room(std::vector<char>* received, const ExchangeShares& shares, int64_t element_bytes) {
  const int64_t chunks = std::min(shares.chunks(), HostsAllreduce::kAhead);
  const size_t bytes = static_cast<size_t>(chunks * shares.hosts() * shares.most_in_part() * element_bytes);
  if (received->size() < bytes) received->resize(bytes);
  return received->data();
}

}  // namespace

HostsAllreduce::HostsAllreduce(Transport* transport, const Collective& collective, const GroupShape& shape,
                               std::unique_ptr<ExchangeShares> shares, std::unique_ptr<HostPart> part,
                               std::vector<char>* received)
    : transport_(transport),
      collective_(collective),
      shape_(shape),
      shares_(std::move(shares)),
      part_(std::move(part)),
      element_bytes_(static_cast<int64_t>(SizeOf(collective.dtype))),
      own_(shape.local()),
      owns_(own_ < shares_->owners()),
      received_(Room(received, *shares_, element_bytes_)),
      exchanges_(kAhead) {
  Transfer none;
  none.complete = true;
  const std::vector<Transfer> nothing(static_cast<size_t>(shape_.hosts()), none);
  for (Exchange& exchange : exchanges_) exchange = {nothing, nothing, nothing, nothing};
  if (!owns_) combined_ = completed_ = published_ = shares_->chunks();
}

template <typename Visit>
void HostsAllreduce::ForEachHost(const Visit& visit) const {
  // Everybody begins with its next neighbour, so that no host is the target of all at once.
  for (int step = 1; step < shape_.hosts(); ++step) visit((shape_.host() + step) % shape_.hosts());
}

Transfer HostsAllreduce::TransferWith(int host, const void* data, const Piece& piece) const {
  Transfer transfer;
  transfer.peer = collective_.ranks[shape_.FirstOf(host) + own_];
  transfer.data = static_cast<char*>(const_cast<void*>(data));
  transfer.bytes = static_cast<size_t>(piece.count * element_bytes_);
  transfer.complete = piece.count == 0;
  return transfer;
}

char* HostsAllreduce::Received(int64_t chunk, int host) {
  return received_ + (chunk % kAhead * shape_.hosts() + host) * shares_->most_in_part() * element_bytes_;
}

bool HostsAllreduce::ResultsAreNext(const ChunkCounts& counts) const {
  if (shares_->has_one_phase() || counts.results == shares_->chunks()) return false;
  return counts.parts == shares_->chunks() || counts.parts - counts.results == kPartsBeforeResults;
}

void HostsAllreduce::StartReceives() {
  ChunkCounts& counts = received_counts_;
  for (;;) {
    if (ResultsAreNext(counts)) {
      // They lie where the combined elements were, which the other owner has by then.
      if (counts.results == combined_) return;
      const int64_t chunk = counts.results++;
      Exchange& exchange = ExchangeOf(chunk);
      ForEachHost([&](int host) {
        const Piece piece = shares_->PartOf(chunk, own_, host);
        exchange.results_in[host] = TransferWith(host, part_->ResultPlace(chunk, piece.offset), piece);
        if (piece.count > 0) transport_->Receive(&exchange.results_in[host]);
      });
    } else {
      if (counts.parts == shares_->chunks() || counts.parts == completed_ + kAhead) return;
      const int64_t chunk = counts.parts++;
      Exchange& exchange = ExchangeOf(chunk);
      const Piece piece = shares_->PartOf(chunk, own_, shape_.host());
      ForEachHost([&](int host) {
        exchange.parts_in[host] = TransferWith(host, Received(chunk, host), piece);
        if (piece.count > 0) transport_->Receive(&exchange.parts_in[host]);
      });
    }
    moved_ = true;
  }
}

void HostsAllreduce::StartSends() {
  ChunkCounts& counts = sent_counts_;
  for (;;) {
    if (ResultsAreNext(counts)) {
      if (counts.results == completed_) return;
      const int64_t chunk = counts.results++;
      Exchange& exchange = ExchangeOf(chunk);
      const Piece piece = shares_->PartOf(chunk, own_, shape_.host());
      ForEachHost([&](int host) {
        exchange.results_out[host] = TransferWith(host, part_->ResultPlace(chunk, piece.offset), piece);
        if (piece.count > 0) transport_->Send(&exchange.results_out[host]);
      });
    } else {
      if (counts.parts == combined_) return;
      const int64_t chunk = counts.parts++;
      Exchange& exchange = ExchangeOf(chunk);
      ForEachHost([&](int host) {
        const Piece piece = shares_->PartOf(chunk, own_, host);
        exchange.parts_out[host] = TransferWith(host, part_->Combined(chunk, piece.offset), piece);
        if (piece.count > 0) transport_->Send(&exchange.parts_out[host]);
      });
    }
    moved_ = true;
  }
}

bool HostsAllreduce::CanComplete(int64_t chunk) {
  if (chunk == received_counts_.parts || chunk == combined_) return false;
  const Exchange& exchange = ExchangeOf(chunk);
  // In one phase the result replaces the data that is sent.
  const bool is_free = !shares_->has_one_phase() || (sent_counts_.parts > chunk && AllComplete(exchange.parts_out));
  return is_free && AllComplete(exchange.parts_in);
}

void HostsAllreduce::Complete(int64_t chunk) {
  const Piece piece = shares_->PartOf(chunk, own_, shape_.host());
  if (piece.count == 0) return;
  absl::InlinedVector<const void*, ExchangeShares::kMostHosts> inputs;
  for (int host = 0; host < shape_.hosts(); ++host) {
    inputs.push_back(host == shape_.host() ? part_->Combined(chunk, piece.offset) : Received(chunk, host));
  }
  Reduce(collective_.dtype, collective_.reduce_op, inputs, nullptr, part_->ResultPlace(chunk, piece.offset),
         piece.count, collective_.postscale, shape_.size());
}

bool HostsAllreduce::StepAsOwner() {
  if (completed_ < shares_->chunks() && CanComplete(completed_)) {
    Complete(completed_++);
    StartSends();
    return true;
  }
  const bool has_results = shares_->has_one_phase() ||
                           (received_counts_.results > published_ && AllComplete(ExchangeOf(published_).results_in));
  if (published_ < completed_ && has_results) {
    part_->Publish(published_++);
    return true;
  }
  if (combined_ < contributed_ && part_->CanCombine(combined_)) {
    part_->Combine(combined_++);
    StartSends();
    return true;
  }
  return false;
}

bool HostsAllreduce::Step() {
  if (owns_ && StepAsOwner()) return true;
  if (collected_ < std::min(published_, contributed_) && part_->CanCollect(collected_)) {
    part_->Collect(collected_++);
    return true;
  }
  if (contributed_ < shares_->chunks() && contributed_ < collected_ + kAhead && HasSent(contributed_ - kAhead) &&
      part_->CanContribute(contributed_)) {
    part_->Contribute(contributed_++);
    return true;
  }
  return false;
}

bool HostsAllreduce::HasSent(int64_t chunk) {
  if (!owns_ || chunk < 0) return true;
  const bool has_begun = sent_counts_.parts > chunk && (shares_->has_one_phase() || sent_counts_.results > chunk);
  const Exchange& exchange = ExchangeOf(chunk);
  return has_begun && AllComplete(exchange.parts_out) && AllComplete(exchange.results_out);
}

bool HostsAllreduce::IsDone() {
  if (collected_ < shares_->chunks()) return false;
  for (int64_t chunk = std::max<int64_t>(0, collected_ - kAhead); chunk < collected_; ++chunk) {
    if (!HasSent(chunk)) return false;
  }
  return true;
}

absl::StatusOr<bool> HostsAllreduce::Advance() {
  const absl::StatusOr<bool> progressed = transport_->Progress();
  if (!progressed.ok()) return progressed.status();
  moved_ = *progressed;
  if (owns_) {
    StartReceives();
    StartSends();
  }
  if (Step()) moved_ = true;
  return IsDone();
}

}  // namespace farandole
