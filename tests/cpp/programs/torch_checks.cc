// Operations on libtorch's tensors, and gradients that are reduced while the backward pass goes on, on all ranks of a
// job. Ends with the first sentence that does not hold.
#include <farandole/farandole.h>
#include <farandole/torch.h>
#include <torch/autograd.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cpp/programs/require.h"

namespace {

using farandole::Call;
using farandole::ExitOnError;
using farandole::Job;
using farandole::ReduceOp;
using farandole::StatusCode;

const std::vector<at::ScalarType> kTypes = {at::kByte,   at::kChar,   at::kShort,         at::kInt,
                                            at::kLong,   at::kHalf,   at::kBFloat16,      at::kFloat,
                                            at::kDouble, at::kUInt16, at::kFloat8_e4m3fn, at::kFloat8_e5m2};

bool IsAll(const at::Tensor& tensor, double value) { return tensor.to(at::kDouble).eq(value).all().item<bool>(); }

void CheckOperations(Job& job) {
  const int size = job.size();
  const int rank = job.rank();
  for (const at::ScalarType type : kTypes) {
    const at::Tensor ones = at::ones({4, 3}).to(type);
    const Call sum = Call(c10::toString(type)).With(ReduceOp::kSum);
    REQUIRE(IsAll(ExitOnError(farandole::Allreduce(job, ones.t(), sum)), size));
    at::Tensor in_place = ones.clone();
    ExitOnError(farandole::AllreduceInPlaceAsync(job, in_place, sum).Wait());
    REQUIRE(IsAll(in_place, size));
    ExitOnError(farandole::GroupedAllreduceInPlace(job, {in_place, ones.clone()}, Call("group").With(ReduceOp::kMax)));
    at::Tensor mine = at::full({2}, rank).to(type);
    ExitOnError(farandole::BroadcastInPlace(job, mine, size - 1, "broadcast"));
    REQUIRE(IsAll(mine, size - 1));
    const at::Tensor gathered = ExitOnError(farandole::Allgather(job, at::ones({rank + 1, 2}).to(type), "gather"));
    REQUIRE(gathered.sizes().equals({size * (size + 1) / 2, 2}) && IsAll(gathered, 1));
    const at::Tensor part = ExitOnError(farandole::Reducescatter(job, at::ones({size, 2}).to(type), sum));
    REQUIRE(part.sizes().equals({1, 2}) && IsAll(part, size));
    const at::Tensor rows = ExitOnError(farandole::Gather(job, at::ones({rank + 1, 2}).to(type), 0, "gather.root"));
    REQUIRE(rows.size(0) == (rank == 0 ? size * (size + 1) / 2 : 0) && IsAll(rows, 1));
    const at::Tensor share = ExitOnError(farandole::Scatter(job, at::full({2 * size, 2}, rank).to(type), size - 1));
    REQUIRE(share.sizes().equals({2, 2}) && IsAll(share, size - 1));
    const auto exchanged = ExitOnError(farandole::Alltoall(job, at::full({size, 2}, rank).to(type)));
    for (int from = 0; from < size; ++from) REQUIRE(IsAll(exchanged.tensor.slice(0, from, from + 1), from));
  }
  REQUIRE(farandole::AllreduceInPlace(job, at::ones({2, 3}).t()).code() == StatusCode::kInvalidArgument);
  REQUIRE(farandole::AllreduceInPlace(job, at::Tensor()).code() == StatusCode::kInvalidArgument);
  REQUIRE(farandole::AllreduceInPlace(job, at::ones({2}, at::kComplexFloat)).code() == StatusCode::kInvalidArgument);
  REQUIRE(farandole::AllreduceInPlace(job, at::ones({2}, at::device(at::kMeta))).code() == StatusCode::kUnimplemented);
}

// Tensors that do not lie in memory as they read.
void CheckOddTensors(Job& job) {
  const int size = job.size();
  const at::Tensor complex = at::view_as_complex(at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).reshape({2, 2}));
  const at::Tensor negative = at::imag(at::conj(complex.slice(0, 0, 1)));
  REQUIRE(negative.is_neg() && negative.is_contiguous() && IsAll(negative, -2));
  const Call sum = Call("odd").With(ReduceOp::kSum);
  REQUIRE(IsAll(ExitOnError(farandole::Allreduce(job, negative, sum)), -2 * size));
  REQUIRE(IsAll(ExitOnError(farandole::Allgather(job, negative, "odd.gather")), -2));
  REQUIRE(IsAll(ExitOnError(farandole::Alltoall(job, negative.expand({size}))).tensor, -2));
  REQUIRE(IsAll(ExitOnError(farandole::Reducescatter(job, negative.expand({size}), sum)), -2 * size));
  at::Tensor parameter = job.rank() == 0 ? negative : at::imag(at::conj(at::zeros_like(complex.slice(0, 0, 1))));
  ExitOnError(farandole::BroadcastParameters(job, {{"odd", parameter}}));
  REQUIRE(IsAll(parameter, -2));
  for (const at::Tensor& odd : {at::eye(2).to_sparse(), at::Tensor()}) {
    REQUIRE(farandole::AllreduceInPlace(job, odd).code() == StatusCode::kInvalidArgument);
    REQUIRE(farandole::Allreduce(job, odd).status().code() == StatusCode::kInvalidArgument);
    REQUIRE(farandole::Allgather(job, odd).status().code() == StatusCode::kInvalidArgument);
    REQUIRE(farandole::Alltoall(job, odd).status().code() == StatusCode::kInvalidArgument);
    REQUIRE(farandole::Reducescatter(job, odd).status().code() == StatusCode::kInvalidArgument);
    REQUIRE(farandole::BroadcastParameters(job, {{"odd", odd}}).code() == StatusCode::kInvalidArgument);
  }
  REQUIRE(farandole::AllreduceInPlace(job, negative).code() == StatusCode::kInvalidArgument);
}

// A parameter that one rank has frozen takes part there with zeros; one that all have frozen does not travel.
void CheckFrozenParameters(Job& job) {
  const bool is_last = job.rank() == job.size() - 1;
  std::vector<at::Tensor> own = {at::ones({2}), at::ones({2}), at::ones({2})};
  own[0].requires_grad_();
  own[1].requires_grad_(!is_last || job.size() == 1);
  farandole::GradientReducer reducer(&job, {{"all", own[0]}, {"one", own[1]}, {"none", own[2]}});
  for (int step = 0; step < 2; ++step) {
    for (at::Tensor& parameter : own) parameter.mutable_grad() = at::Tensor();
    (own[0].sum() + own[1].sum() + own[2].sum()).backward();
    ExitOnError(reducer.Synchronize());
    REQUIRE(IsAll(own[0].grad(), 1));
    const double trained = job.size() == 1 ? 1 : job.size() - 1;
    REQUIRE(at::allclose(own[1].grad(), at::full({2}, trained / job.size())));
    REQUIRE(!own[2].grad().defined());
  }
  own[2].requires_grad_();
  (own[0].sum() + own[1].sum() + own[2].sum()).backward();
  REQUIRE(reducer.Synchronize().message().find("gradient.none is required now, but no rank trained") !=
          std::string::npos);
}

void CheckGradients(Job& job) {
  const int size = job.size();
  torch::manual_seed(job.rank());
  torch::nn::Sequential model(torch::nn::Linear(5, 4), torch::nn::Linear(4, 3));
  torch::nn::Linear unused(2, 2);
  model->push_back(unused);
  auto parameters = farandole::NamedTensorsOf(model->named_parameters());
  ExitOnError(farandole::BroadcastParameters(job, parameters));
  farandole::GradientReducer reducer(&job, parameters);
  const auto backward = [&model](const at::Tensor& input) {
    const at::Tensor hidden = model->ptr<torch::nn::LinearImpl>(0)->forward(input);
    model->ptr<torch::nn::LinearImpl>(1)->forward(hidden).square().mean().backward();
  };
  const at::Tensor all = at::arange(size * 10, at::kFloat).reshape({size * 2, 5}).sin();
  for (int step = 0; step < 3; ++step) {
    for (auto& [name, parameter] : parameters) parameter.mutable_grad() = at::Tensor();
    const uint64_t before = ExitOnError(job.Counters()).submissions;
    backward(all.slice(0, 2 * job.rank(), 2 * job.rank() + 2));
    // They are on their way before a thread waits: two weights and two biases.
    REQUIRE(ExitOnError(job.Counters()).submissions - before == 4);
    ExitOnError(reducer.Synchronize());
    std::vector<at::Tensor> found;
    for (auto& [name, parameter] : parameters) found.push_back(parameter.grad().clone());
    REQUIRE(IsAll(found[4], 0) && IsAll(found[5], 0));
    // The gradient of all samples at once, as one process has it.
    torch::nn::Linear first(5, 4);
    torch::nn::Linear second(4, 3);
    const std::vector<at::Tensor> own = {first->weight, first->bias, second->weight, second->bias};
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < own.size(); ++i) own[i].copy_(parameters[i].second);
    {
      const at::AutoGradMode with_grad(true);
      second->forward(first->forward(all)).square().mean().backward();
    }
    for (size_t i = 0; i < own.size(); ++i) {
      REQUIRE(at::allclose(found[i], own[i].grad(), 1e-5, 1e-6));
      parameters[i].second.sub_(found[i], 0.1);
    }
  }
  backward(all);
  backward(all);
  REQUIRE(reducer.Synchronize().message().find("was made twice") != std::string::npos);
}

// Autograd hands the memory of one gradient to two parameters, or to one and to what it computes after that one's hook.
void CheckGradientsOfOneMemory(Job& job) {
  torch::manual_seed(1);
  std::vector<at::Tensor> own = {at::randn({8, 8}), at::randn({8}), at::randn({8}), at::randn({8})};
  for (at::Tensor& parameter : own) parameter.requires_grad_();
  const farandole::NamedTensors named = {{"first", own[0]}, {"a", own[1]}, {"b", own[2]}, {"c", own[3]}};
  farandole::GradientReducer reducer(&job, named, ReduceOp::kSum);
  // Within backward, until gradients that travel have come.
  const auto wait = [&job](const at::Tensor& gradient) {
    ExitOnError(farandole::Allreduce(job, at::zeros({1}), "wait"));
    return gradient;
  };
  const auto loss = [&own](const at::Tensor& row, const auto& hook) {
    at::Tensor layer = at::matmul(row, own[0]);
    layer.register_hook(hook);
    const at::Tensor biases = own[2].unsqueeze(0) + own[3].unsqueeze(0);
    return (at::relu(layer + own[1].unsqueeze(0)) + biases).square().sum();
  };
  const at::Tensor all = at::randn({job.size(), 8});
  for (int step = 0; step < 2; ++step) {
    for (at::Tensor& parameter : own) parameter.mutable_grad() = at::Tensor();
    loss(all.slice(0, job.rank(), job.rank() + 1), wait).backward();
    ExitOnError(reducer.Synchronize());
    at::Tensor total = at::zeros({});
    for (const at::Tensor& row : all.split(1)) total = total + loss(row, [](const at::Tensor& same) { return same; });
    const auto expected = torch::autograd::grad({total}, own);
    for (size_t i = 0; i < own.size(); ++i) REQUIRE(at::allclose(own[i].grad(), expected[i], 1e-4, 1e-4));
  }
}

// Rank 0 has no batch in the first pass over the data, so that it agrees only after the join.
void CheckJoin(Job& job) {
  at::Tensor own = at::ones({3}).requires_grad_();
  farandole::GradientReducer reducer(&job, {{"joined", own}});
  for (int pass = 0; pass < 2; ++pass) {
    if (pass > 0 || job.rank() > 0) {
      own.mutable_grad() = at::Tensor();
      own.sum().backward();
      ExitOnError(reducer.Synchronize());
    }
    if (pass == 0) ExitOnError(job.Join());
  }
  // A rank that joined here would answer what another one still asks.
  ExitOnError(job.Barrier());
  REQUIRE(IsAll(own.grad(), 1));
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  Job job = ExitOnError(farandole::Init());
  CheckOperations(job);
  CheckOddTensors(job);
  CheckFrozenParameters(job);
  CheckGradients(job);
  CheckGradientsOfOneMemory(job);
  CheckJoin(job);
  ExitOnError(job.Shutdown());
  std::printf("all holds\n");
}
