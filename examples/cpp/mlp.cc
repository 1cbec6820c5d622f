// Trains a small network on a made-up problem, in plain C++: each worker sees its share of the samples, and the sum of
// all gradients is what one process would have.
//
//   .venv/bin/farandole run -np 2 ./mlp [FILE]   rank 0 writes the trained weights into FILE, a number a line
//   ./mlp [FILE]                                 the same with one worker
#include <farandole/farandole.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr int kInputs = 8;
constexpr int kHidden = 32;
constexpr int kSamples = 480;
constexpr int kSteps = 300;
constexpr float kRate = 0.1f;

// A layer of tanh, and one output: first the weights and biases of the hidden layer, then those of the output.
struct Network {
  std::vector<float> hidden = std::vector<float>(kHidden * (kInputs + 1));
  std::vector<float> output = std::vector<float>(kHidden + 1);
};

struct Sample {
  float inputs[kInputs];
  float target;
};

std::vector<Sample> MakeSamples() {
  std::mt19937 source(1);
  std::vector<Sample> samples(kSamples);
  for (Sample& sample : samples) {
    for (float& input : sample.inputs) input = static_cast<float>(source() % 2000) / 1000 - 1;
    sample.target = std::sin(2 * sample.inputs[0]) * sample.inputs[1];
  }
  return samples;
}

// Adds the gradient of the squared error, divided by the number of all samples. Gives this sample's part of the loss.
float AddGradient(const Network& network, const Sample& sample, Network* gradient) {
  float hidden[kHidden];
  float found = network.output[kHidden];
  for (int unit = 0; unit < kHidden; ++unit) {
    const float* weights = &network.hidden[static_cast<size_t>(unit) * (kInputs + 1)];
    float sum = weights[kInputs];
    for (int i = 0; i < kInputs; ++i) sum += weights[i] * sample.inputs[i];
    hidden[unit] = std::tanh(sum);
    found += network.output[static_cast<size_t>(unit)] * hidden[unit];
  }
  const float error = found - sample.target;
  const float slope = 2 * error / kSamples;
  for (int unit = 0; unit < kHidden; ++unit) {
    const auto at = static_cast<size_t>(unit);
    gradient->output[at] += slope * hidden[unit];
    const float inner = slope * network.output[at] * (1 - hidden[unit] * hidden[unit]);
    float* weights = &gradient->hidden[at * (kInputs + 1)];
    for (int i = 0; i < kInputs; ++i) weights[i] += inner * sample.inputs[i];
    weights[kInputs] += inner;
  }
  gradient->output[kHidden] += slope;
  return error * error / kSamples;
}

void Descend(const std::vector<float>& gradient, std::vector<float>* weights) {
  for (size_t i = 0; i < weights->size(); ++i) (*weights)[i] -= kRate * gradient[i];
}

bool Write(const Network& network, const char* path) {
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return false;
  for (const auto* weights : {&network.hidden, &network.output}) {
    for (const float weight : *weights) std::fprintf(file, "%.9g\n", static_cast<double>(weight));
  }
  const bool is_well = std::ferror(file) == 0;
  return std::fclose(file) == 0 && is_well;
}

}  // namespace

int main(int argc, char** argv) {
  using farandole::Call;
  using farandole::ExitOnError;
  using farandole::ReduceOp;
  farandole::Job job = ExitOnError(farandole::Init());

  // Each rank begins with weights of its own, and gets those of rank 0.
  Network network;
  std::mt19937 source(static_cast<unsigned>(job.rank()) + 7);
  for (auto* weights : {&network.hidden, &network.output}) {
    for (float& weight : *weights) weight = static_cast<float>(source() % 1000) / 1000 - 0.5f;
  }
  ExitOnError(job.BroadcastInPlace(network.hidden, 0, "hidden"));
  ExitOnError(job.BroadcastInPlace(network.output, 0, "output"));

  const std::vector<Sample> samples = MakeSamples();
  const std::vector<int64_t> share =
      farandole::DistributedSampler(kSamples, job.rank(), job.size(), {true, 1, true}).Indices();
  float loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    Network gradient;
    loss = 0;
    for (const int64_t index : share) loss += AddGradient(network, samples[static_cast<size_t>(index)], &gradient);
    // Both gradients are on their way while the loss is reduced.
    const auto sum = [](const char* name) { return Call(name).With(ReduceOp::kSum); };
    farandole::Future hidden = job.AllreduceInPlaceAsync(gradient.hidden, sum("gradient/hidden"));
    farandole::Future output = job.AllreduceInPlaceAsync(gradient.output, sum("gradient/output"));
    ExitOnError(job.AllreduceInPlace(farandole::Scalar(&loss), sum("loss")));
    ExitOnError(hidden.Wait());
    ExitOnError(output.Wait());
    Descend(gradient.hidden, &network.hidden);
    Descend(gradient.output, &network.output);
  }
  if (job.rank() > 0) return 0;
  std::printf("%d workers: loss %.6f\n", job.size(), loss);
  if (argc < 2 || Write(network, argv[1])) return 0;
  std::fprintf(stderr, "%s cannot be written\n", argv[1]);
  return 1;
}
