// Operations on libtorch's tensors, and gradients that are reduced while the backward pass goes on, on all ranks of a
// job. Ends with the first sentence that does not hold.
#include <farandole/farandole.h>
#include <farandole/torch.h>
#include <torch/autograd.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

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

const std::vector<at::ScalarType> kTypes = {at::kByte,   at::kChar,          at::kShort,      at::kInt,    at::kLong,
                                            at::kHalf,   at::kBFloat16,      at::kFloat,      at::kDouble, at::kBool,
                                            at::kUInt16, at::kFloat8_e4m3fn, at::kFloat8_e5m2};

bool IsAll(const at::Tensor& tensor, double value) { return tensor.to(at::kDouble).eq(value).all().item<bool>(); }

// A number as a tensor of this type has it.
double In(at::ScalarType type, int number) { return type == at::kBool ? number != 0 : number; }

// Rows of `type`, each of which has the number of the rank that has given it: rank r has given counts[r].
bool AreOfRanks(const at::Tensor& rows, at::ScalarType type, const std::vector<int64_t>& counts) {
  int64_t row = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    if (!IsAll(rows.slice(0, row, row + counts[rank]), In(type, static_cast<int>(rank)))) return false;
    row += counts[rank];
  }
  return rows.scalar_type() == type && rows.dim() == 2 && rows.size(0) == row;
}

void CheckOperations(Job& job, at::ScalarType type) {
  const int size = job.size();
  const int rank = job.rank();
  const at::Tensor ones = at::ones({4, 3}).to(type);
  const Call sum = Call(c10::toString(type)).With(ReduceOp::kSum);
  REQUIRE(IsAll(ExitOnError(farandole::Allreduce(job, ones.t(), sum)), In(type, size)));
  at::Tensor in_place = ones.clone();
  ExitOnError(farandole::AllreduceInPlace(job, in_place, sum));
  REQUIRE(IsAll(in_place, In(type, size)));
  at::Tensor other = ones.clone();
  ExitOnError(farandole::GroupedAllreduceInPlace(job, {in_place, other}, Call("group").With(ReduceOp::kMin)));
  REQUIRE(IsAll(in_place, In(type, size)) && IsAll(other, 1));
  at::Tensor mine = at::full({2}, rank).to(type);
  ExitOnError(farandole::BroadcastInPlace(job, mine, size - 1, "broadcast"));
  REQUIRE(IsAll(mine, In(type, size - 1)));
  const at::Tensor part = ExitOnError(farandole::Reducescatter(job, at::ones({size, 2}).to(type), sum));
  REQUIRE(part.sizes().equals({1, 2}) && IsAll(part, In(type, size)));
  std::vector<int64_t> ascending;
  for (int from = 0; from < size; ++from) ascending.push_back(from + 1);
  const at::Tensor own = at::full({rank + 1, 2}, rank).to(type);
  REQUIRE(AreOfRanks(ExitOnError(farandole::Allgather(job, own, "gather")), type, ascending));
  const at::Tensor rows = ExitOnError(farandole::Gather(job, own, 0, "gather.root"));
  REQUIRE(rank == 0 ? AreOfRanks(rows, type, ascending) : rows.size(0) == 0);
  const at::Tensor share = ExitOnError(farandole::Scatter(job, at::full({2 * size, 2}, rank).to(type), size - 1));
  REQUIRE(share.sizes().equals({2, 2}) && IsAll(share, In(type, size - 1)));
  const std::vector<int64_t> one_each(static_cast<size_t>(size), 1);
  const auto exchanged = ExitOnError(farandole::Alltoall(job, at::full({size, 2}, rank).to(type)));
  REQUIRE(exchanged.rows == one_each && AreOfRanks(exchanged.tensor, type, one_each));
}

// All of them are on their way before one is awaited. Inputs that are not contiguous, and nobody else has them.
void CheckFutures(Job& job, at::ScalarType type) {
  const int size = job.size();
  const int rank = job.rank();
  const auto full = [type](std::vector<int64_t> shape, int number) { return at::full(shape, number).to(type).t(); };
  const auto sum = [](const char* name) { return Call(name).With(ReduceOp::kSum); };
  const uint64_t before = ExitOnError(job.Counters()).submissions;
  auto reduced = farandole::AllreduceAsync(job, full({3, 4}, 1), sum("reduced"));
  at::Tensor in_place = at::ones({5}).to(type);
  auto placed = farandole::AllreduceInPlaceAsync(job, in_place, sum("placed"));
  const std::vector<at::Tensor> group = {at::ones({3}).to(type), at::ones({2, 2}).to(type)};
  auto grouped = farandole::GroupedAllreduceInPlaceAsync(job, group, sum("grouped"));
  at::Tensor cast = at::full({2}, rank).to(type);
  auto broadcast = farandole::BroadcastInPlaceAsync(job, cast, size - 1, "cast");
  auto gathered = farandole::AllgatherAsync(job, full({2, rank + 1}, rank), "gathered");
  auto rooted = farandole::GatherAsync(job, full({2, rank + 1}, rank), size - 1, "rooted");
  auto scattered = farandole::ScatterAsync(job, full({2, 2 * size}, rank), size - 1, "scattered");
  auto exchanged = farandole::AlltoallAsync(job, full({2, size}, rank), {}, "exchanged");
  auto part = farandole::ReducescatterAsync(job, full({2, size}, 1), sum("part"));
  REQUIRE(ExitOnError(job.Counters()).submissions - before >= 9);
  const at::Tensor share = ExitOnError(part.Wait());
  REQUIRE(share.sizes().equals({1, 2}) && IsAll(share, In(type, size)));
  const std::vector<int64_t> one_each(static_cast<size_t>(size), 1);
  const farandole::ExchangedTensor rows = ExitOnError(exchanged.Wait());
  REQUIRE(rows.rows == one_each && AreOfRanks(rows.tensor, type, one_each));
  const at::Tensor taken = ExitOnError(scattered.Wait());
  REQUIRE(taken.sizes().equals({2, 2}) && IsAll(taken, In(type, size - 1)));
  std::vector<int64_t> ascending;
  for (int from = 0; from < size; ++from) ascending.push_back(from + 1);
  const at::Tensor at_root = ExitOnError(rooted.Wait());
  REQUIRE(rank == size - 1 ? AreOfRanks(at_root, type, ascending) : at_root.size(0) == 0);
  REQUIRE(AreOfRanks(ExitOnError(gathered.Wait()), type, ascending));
  ExitOnError(broadcast.Wait());
  REQUIRE(IsAll(cast, In(type, size - 1)));
  ExitOnError(grouped.Wait());
  REQUIRE(IsAll(group[0], In(type, size)) && IsAll(group[1], In(type, size)));
  ExitOnError(placed.Wait());
  REQUIRE(IsAll(in_place, In(type, size)));
  const at::Tensor result = ExitOnError(reduced.Wait());
  REQUIRE(result.sizes().equals({4, 3}) && IsAll(result, In(type, size)));
}

// One that is dropped waits for the memory that it has; one that cannot be sent has its error.
void CheckFuturesThatEndEarly(Job& job) {
  for (int turn = 0; turn < 5; ++turn) {
    auto dropped = farandole::AllgatherAsync(job, at::ones({2000, 2}), "dropped rows");
    auto part = farandole::ReducescatterAsync(job, at::ones({job.size(), 2}), "dropped part");
  }
  int calls = 0;
  auto then = farandole::AllreduceAsync(job, at::ones({3}), Call("then").With(ReduceOp::kSum))
                  .Then([&calls](const farandole::StatusOr<at::Tensor>& sum) { return calls += sum->size(0); });
  REQUIRE(then.Wait() == 3 && calls == 3);
  const at::Tensor sparse = at::eye(2).to_sparse();
  const auto is_refused = [](const farandole::Status& status) { return status.code() == StatusCode::kInvalidArgument; };
  REQUIRE(is_refused(farandole::AllreduceAsync(job, sparse).Wait().status()));
  REQUIRE(is_refused(farandole::GroupedAllreduceInPlaceAsync(job, {sparse}).Wait()));
  REQUIRE(is_refused(farandole::BroadcastInPlaceAsync(job, sparse, 0).Wait()));
  REQUIRE(is_refused(farandole::AllgatherAsync(job, sparse).Wait().status()));
  REQUIRE(is_refused(farandole::GatherAsync(job, sparse, 0).Wait().status()));
  REQUIRE(is_refused(farandole::ScatterAsync(job, sparse, 0).Wait().status()));
  REQUIRE(is_refused(farandole::AlltoallAsync(job, sparse).Wait().status()));
  REQUIRE(is_refused(farandole::ReducescatterAsync(job, sparse).Wait().status()));
  REQUIRE(is_refused(farandole::ReducescatterAsync(job, at::ones({})).Wait().status()));
  REQUIRE(is_refused(farandole::AllgatherAsync(job, at::ones({2}, at::kComplexFloat)).Wait().status()));
}

void CheckRefusedTensors(Job& job) {
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

// The code of docs/cpp.md, which test_frameworks.py has put there.
void CheckPage(Job& job) {
  torch::nn::Linear model(2, 1);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.5));
  const at::Tensor loss = model->forward(at::full({1, 2}, job.rank(), at::kFloat)).sum();
#include "page.inc"
  REQUIRE(at::allclose(model->weight.grad(), at::full({1, 2}, (job.size() - 1) / 2.0)));
  const at::Tensor same = ExitOnError(farandole::Allgather(job, model->weight.detach()));
  REQUIRE(same.eq(same.slice(0, 0, 1)).all().item<bool>());
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
  for (const at::ScalarType type : kTypes) {
    CheckOperations(job, type);
    CheckFutures(job, type);
  }
  CheckFuturesThatEndEarly(job);
  CheckRefusedTensors(job);
  CheckOddTensors(job);
  CheckFrozenParameters(job);
  CheckGradients(job);
  CheckGradientsOfOneMemory(job);
  CheckPage(job);
  CheckJoin(job);
  ExitOnError(job.Shutdown());
  std::printf("all holds\n");
}
