// Mlp trains a small network on a made-up problem, in plain Go: each worker sees its share of the samples, and the sum of
// all gradients is what one process would have.
//
//	go build ./mlp
//	farandole run -np 2 ./mlp [FILE]   rank 0 writes the trained weights into FILE, a number a line
//	./mlp [FILE]                       the same with one worker
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"farandole.dev/go/farandole"
)

const (
	inputs  = 8
	hidden  = 32
	samples = 480
	steps   = 300
	rate    = 0.1
)

// network has a layer of tanh and one output. A unit's weights lie one after the other, the bias last.
type network struct{ hidden, output []float32 }

func newNetwork() network {
	return network{make([]float32, hidden*(inputs+1)), make([]float32, hidden+1)}
}

type sample struct {
	inputs [inputs]float32
	target float32
}

func makeSamples() []sample {
	source := rand.New(rand.NewSource(1))
	made := make([]sample, samples)
	for i := range made {
		for k := range made[i].inputs {
			made[i].inputs[k] = 2*source.Float32() - 1
		}
		made[i].target = float32(math.Sin(2*float64(made[i].inputs[0]))) * made[i].inputs[1]
	}
	return made
}

// addGradient adds the gradient of the squared error, divided by the number of all samples, and gives this sample's part
// of the loss.
func (n network) addGradient(s sample, gradient network) float32 {
	var active [hidden]float32
	found := n.output[hidden]
	for unit := range hidden {
		weights := n.hidden[unit*(inputs+1):][:inputs+1]
		sum := weights[inputs]
		for i, input := range s.inputs {
			sum += weights[i] * input
		}
		active[unit] = float32(math.Tanh(float64(sum)))
		found += n.output[unit] * active[unit]
	}
	deviation := found - s.target
	slope := 2 * deviation / samples
	for unit := range hidden {
		gradient.output[unit] += slope * active[unit]
		inner := slope * n.output[unit] * (1 - active[unit]*active[unit])
		weights := gradient.hidden[unit*(inputs+1):][:inputs+1]
		for i, input := range s.inputs {
			weights[i] += inner * input
		}
		weights[inputs] += inner
	}
	gradient.output[hidden] += slope
	return deviation * deviation / samples
}

func descend(gradient, weights []float32) {
	for i := range weights {
		weights[i] -= rate * gradient[i]
	}
}

func train(ctx context.Context, job *farandole.Job) error {
	// Each rank begins with weights of its own, and gets those of rank 0.
	source, trained := rand.New(rand.NewSource(int64(job.Rank())+7)), newNetwork()
	for _, weights := range [][]float32{trained.hidden, trained.output} {
		for i := range weights {
			weights[i] = source.Float32() - 0.5
		}
		if err := farandole.BroadcastInPlace(ctx, job, weights, 0); err != nil {
			return err
		}
	}
	all, loss, sum := makeSamples(), []float32{0}, farandole.Reduce(farandole.Sum)
	for range steps {
		gradient := newNetwork()
		loss[0] = 0
		for i := job.Rank(); i < samples; i += job.Size() {
			loss[0] += trained.addGradient(all[i], gradient)
		}
		// Both gradients are on their way while the loss is reduced.
		first, err := farandole.AllreduceInPlaceAsync(job, gradient.hidden, farandole.Name("gradient/hidden"), sum)
		if err != nil {
			return err
		}
		second, err := farandole.AllreduceInPlaceAsync(job, gradient.output, farandole.Name("gradient/output"), sum)
		if err != nil {
			return err
		}
		if err := farandole.AllreduceInPlace(ctx, job, loss, farandole.Name("loss"), sum); err != nil {
			return err
		}
		for _, pending := range []*farandole.Handle{first, second} {
			if err := pending.Wait(ctx); err != nil {
				return err
			}
		}
		descend(gradient.hidden, trained.hidden)
		descend(gradient.output, trained.output)
	}
	if job.Rank() > 0 {
		return nil
	}
	fmt.Printf("%d workers: loss %.6f\n", job.Size(), loss[0])
	if len(os.Args) < 2 {
		return nil
	}
	return trained.write(os.Args[1])
}

func (n network) write(path string) error {
	var text strings.Builder
	for _, weights := range [][]float32{n.hidden, n.output} {
		for _, weight := range weights {
			fmt.Fprintln(&text, weight)
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	if err := farandole.Run(ctx, farandole.Options{}, train); err != nil {
		log.Fatal(err)
	}
}
