#include "server/diagnosis/roll_up.h"

namespace farandole {

void RollUp::Add(const RollUp& later) {
  const uint32_t whole = uint32_t{tenths} + later.tenths;
  if (later.tenths == 0) return;
  const auto mean = [this, &later, whole](uint16_t before, uint16_t behind) {
    return static_cast<uint16_t>((uint32_t{before} * tenths + uint32_t{behind} * later.tenths + whole / 2) / whole);
  };
  waited = mean(waited, later.waited);
  transfer = mean(transfer, later.transfer);
  cpu = mean(cpu, later.cpu);
  most_waited = std::max<uint16_t>(most_waited, later.most_waited);
  most_transfer = std::max<uint16_t>(most_transfer, later.most_transfer);
  MeanShare busy, memory;
  for (const RollUp* one : {static_cast<const RollUp*>(this), &later}) {
    busy.Add(one->gpu(), one->tenths);
    memory.Add(one->gpu_memory(), one->tenths);
  }
  SetGpu(busy.Value());
  SetGpuMemory(memory.Value());
  steps += later.steps;
  tenths = Saturated(whole);
}

void RollUp::Together::Add(const RollUp& rank) {
  if (rank.tenths == 0) return;
  ++count_;
  waited_ += rank.waited;
  transfer_ += rank.transfer;
  cpu_ += rank.cpu;
  gpu_.Add(rank.gpu());
  gpu_memory_.Add(rank.gpu_memory());
  mean_.tenths = std::max(mean_.tenths, rank.tenths);
  mean_.most_waited = std::max<uint16_t>(mean_.most_waited, rank.waited);
  mean_.most_transfer = std::max<uint16_t>(mean_.most_transfer, rank.transfer);
  mean_.steps = std::max(mean_.steps, rank.steps);
}

RollUp RollUp::Together::Value() const {
  RollUp mean = mean_;
  if (count_ == 0) return mean;
  mean.waited = Saturated((waited_ + count_ / 2) / count_);
  mean.transfer = Saturated((transfer_ + count_ / 2) / count_);
  mean.cpu = Saturated((cpu_ + count_ / 2) / count_);
  mean.SetGpu(gpu_.Value());
  mean.SetGpuMemory(gpu_memory_.Value());
  return mean;
}

void NetworkRollUp::Add(const NetworkRollUp& later) {
  if (later.tenths == 0) return;
  const uint32_t whole = uint32_t{tenths} + later.tenths;
  const auto mean = [this, &later, whole](float before, float behind) {
    return (before * static_cast<float>(tenths) + behind * static_cast<float>(later.tenths)) /
           static_cast<float>(whole);
  };
  received = mean(received, later.received);
  sent = mean(sent, later.sent);
  retransmits += later.retransmits;
  tenths = Saturated(whole);
}

void NetworkRollUp::Together::Add(const NetworkRollUp& host) {
  sum_.tenths = std::max(sum_.tenths, host.tenths);
  sum_.received += host.received;
  sum_.sent += host.sent;
  sum_.retransmits += host.retransmits;
}

}  // namespace farandole
