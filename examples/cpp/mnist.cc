// Trains a small CNN on Fashion-MNIST with libtorch and several workers. They share each batch out among them, so that
// the parameters become those of one process.
//
//   .venv/bin/farandole run -np 2 ./mnist [DIRECTORY [PASSES [FILE]]]
//
// Rank 0 writes the trained parameters into FILE, a number a line. The data is Debian's package dataset-fashion-mnist:
// four gzipped IDX files (yann.lecun.com/exdb/mnist).
#include <farandole/farandole.h>
#include <farandole/torch.h>
#include <torch/nn.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using farandole::Call;
using farandole::ExitOnError;
using farandole::Job;
using farandole::ReduceOp;
namespace nn = torch::nn;

constexpr int64_t kBatch = 128;  // of all workers together
constexpr double kRate = 0.04;
constexpr int64_t kPixels = 28;

// The bytes of an IDX file after its header, which has `header` bytes. Ends the program with a sentence where it cannot
// be read.
std::vector<uint8_t> ReadIdx(const std::string& path, int header) {
  std::vector<uint8_t> content;
  if (const gzFile file = gzopen(path.c_str(), "rb"); file != nullptr) {
    std::vector<uint8_t> part(1 << 20);
    for (int read; (read = gzread(file, part.data(), static_cast<unsigned>(part.size()))) > 0;) {
      content.insert(content.end(), part.begin(), part.begin() + read);
    }
    gzclose(file);
  }
  if (content.size() < static_cast<size_t>(header)) {
    std::fprintf(stderr, "%s cannot be read; the data comes with `apt-get install dataset-fashion-mnist`\n",
                 path.c_str());
    std::exit(1);
  }
  content.erase(content.begin(), content.begin() + header);
  return content;
}

struct Images {
  torch::Tensor pixels;  // [n, 1, 28, 28]
  torch::Tensor labels;  // [n]

  static Images Read(const std::string& prefix) {
    std::vector<uint8_t> pixels = ReadIdx(prefix + "-images-idx3-ubyte.gz", 16);
    std::vector<uint8_t> labels = ReadIdx(prefix + "-labels-idx1-ubyte.gz", 8);
    const auto count = static_cast<int64_t>(labels.size());
    Images images;
    images.pixels = torch::from_blob(pixels.data(), {count, 1, kPixels, kPixels}, torch::kByte).to(torch::kFloat);
    images.pixels.sub_(72.9).div_(90.0);  // mean and deviation of the training images
    images.labels = torch::from_blob(labels.data(), {count}, torch::kByte).to(torch::kLong);
    return images;
  }
};

nn::Sequential MakeModel() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Flatten(), nn::Linear(32 * 7 * 7, 64), nn::ReLU(), nn::Linear(64, 10));
}

// The share of the test images that the model knows; each worker looks at its part.
double Test(Job& job, nn::Sequential& model, const Images& images) {
  const torch::NoGradGuard no_grad;
  const int64_t count = images.labels.size(0);
  double correct = 0;
  for (int64_t begin = job.rank() * kBatch; begin < count; begin += job.size() * kBatch) {
    const int64_t end = std::min(begin + kBatch, count);
    const torch::Tensor scores = model->forward(images.pixels.slice(0, begin, end));
    correct += scores.argmax(1).eq(images.labels.slice(0, begin, end)).sum().item<double>();
  }
  ExitOnError(job.AllreduceInPlace(farandole::Scalar(&correct), Call("correct").With(ReduceOp::kSum)));
  return correct / static_cast<double>(count);
}

void WriteParameters(nn::Sequential& model, const char* path) {
  std::FILE* const file = std::fopen(path, "w");
  bool is_written = file != nullptr;
  for (const torch::Tensor& parameter : model->parameters()) {
    const torch::Tensor flat = parameter.detach().flatten();
    const float* const numbers = flat.data_ptr<float>();
    for (int64_t i = 0; i < flat.numel() && is_written; ++i) is_written = std::fprintf(file, "%.9g\n", numbers[i]) > 0;
  }
  if (file != nullptr && std::fclose(file) == 0 && is_written) return;
  std::fprintf(stderr, "%s cannot be written\n", path);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string data = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const int64_t passes = argc > 2 ? std::atoll(argv[2]) : 2;
  torch::set_num_threads(1);  // a core a worker
  Job job = ExitOnError(farandole::Init());
  torch::manual_seed(1);
  const Images train = Images::Read(data + "/train");
  const Images test = Images::Read(data + "/t10k");

  nn::Sequential model = MakeModel();
  ExitOnError(farandole::BroadcastParameters(job, farandole::NamedTensorsOf(model->named_parameters())));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(kRate).momentum(0.9));
  farandole::GradientReducer reducer(&job, farandole::NamedTensorsOf(model->named_parameters()));
  farandole::DistributedSampler sampler(train.labels.size(0), job.rank(), job.size(), {true, 1, true});
  const int64_t batch_size = std::max<int64_t>(kBatch / job.size(), 1);
  for (int64_t pass = 0; pass < passes; ++pass) {
    sampler.SetPass(pass);
    std::vector<int64_t> indices = sampler.Indices();
    const torch::Tensor order = torch::from_blob(indices.data(), {static_cast<int64_t>(indices.size())}, torch::kLong);
    double loss = 0;
    for (int64_t begin = 0; begin + batch_size <= order.size(0); begin += batch_size) {
      const torch::Tensor batch = order.slice(0, begin, begin + batch_size);
      optimizer.zero_grad();
      const torch::Tensor scores = model->forward(train.pixels.index_select(0, batch));
      torch::Tensor error = nn::functional::cross_entropy(scores, train.labels.index_select(0, batch));
      error.backward();
      ExitOnError(reducer.Synchronize());
      optimizer.step();
      loss = error.item<double>();
    }
    const double accuracy = Test(job, model, test);
    if (job.rank() == 0) {
      std::printf("pass %ld/%ld: loss %.3f, test accuracy %.2f%%\n", static_cast<long>(pass + 1),
                  static_cast<long>(passes), loss, 100 * accuracy);
      std::fflush(stdout);
    }
  }
  if (argc > 3 && job.rank() == 0) WriteParameters(model, argv[3]);
}
