package farandole

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"reflect"
	"slices"

	"farandole.dev/go/internal/fault"
)

// State is what all ranks of an elastic job share and a newcomer needs. RunElastic calls it from one goroutine.
type State interface {
	// Save keeps a copy of the state in this process's memory.
	Save() error
	// Restore takes the state back to the last Save.
	Restore() error
	// Sync gives the state of a rank to all ranks, which all call it.
	Sync(ctx context.Context, job *Job, root int) error
}

// Variables gives the State of some variables, to which the values point: &weights, &step. Slices of a Number are copied
// and sent as tensors, and keep their memory where the length stays; whatever else encoding/gob can encode is saved and
// sent by it. It panics where a value is no pointer.
func Variables(pointers ...any) State {
	state := make(variables, len(pointers))
	for i, pointer := range pointers {
		if value := reflect.ValueOf(pointer); value.Kind() != reflect.Pointer || value.IsNil() {
			panic(fmt.Sprintf("farandole: Variables needs pointers, but argument %d is a %T", i, pointer))
		}
		state[i] = variableOf(pointer)
	}
	return state
}

// variable is one of a state's.
type variable interface {
	save() error
	restore() error
	sync(ctx context.Context, job *Job, root int) error
}

type variables []variable

func (v variables) Save() error {
	for _, each := range v {
		if err := each.save(); err != nil {
			return err
		}
	}
	return nil
}

func (v variables) Restore() error {
	for _, each := range v {
		if err := each.restore(); err != nil {
			return err
		}
	}
	return nil
}

func (v variables) Sync(ctx context.Context, job *Job, root int) error {
	for _, each := range v {
		if err := each.sync(ctx, job, root); err != nil {
			return err
		}
	}
	return nil
}

func variableOf(pointer any) variable {
	switch typed := pointer.(type) {
	case *[]float32:
		return newTensor(typed)
	case *[]float64:
		return newTensor(typed)
	case *[]uint8:
		return newTensor(typed)
	case *[]int8:
		return newTensor(typed)
	case *[]uint16:
		return newTensor(typed)
	case *[]int16:
		return newTensor(typed)
	case *[]int32:
		return newTensor(typed)
	case *[]int64:
		return newTensor(typed)
	case *[]int:
		return newTensor(typed)
	case *[]bool:
		return newTensor(typed)
	case *[]Float16:
		return newTensor(typed)
	case *[]BFloat16:
		return newTensor(typed)
	case *[]Float8E4M3:
		return newTensor(typed)
	case *[]Float8E5M2:
		return newTensor(typed)
	}
	return &encoded{pointer: pointer}
}

// tensor is a slice whose elements travel as they are.
type tensor[T Number] struct {
	data  *[]T
	saved []T
}

func newTensor[T Number](data *[]T) *tensor[T] { return &tensor[T]{data: data} }

func (t *tensor[T]) save() error {
	t.saved = append(t.saved[:0], *t.data...)
	return nil
}

func (t *tensor[T]) restore() error {
	t.resize(len(t.saved))
	copy(*t.data, t.saved)
	return nil
}

func (t *tensor[T]) resize(length int) {
	if len(*t.data) != length {
		*t.data = make([]T, length)
	}
}

func (t *tensor[T]) sync(ctx context.Context, job *Job, root int) error {
	length := []int64{int64(len(*t.data))}
	if err := BroadcastInPlace(ctx, job, length, root); err != nil {
		return err
	}
	t.resize(int(length[0]))
	return BroadcastInPlace(ctx, job, *t.data, root)
}

// encoded is a variable that encoding/gob encodes.
type encoded struct {
	pointer any
	saved   []byte
}

func (e *encoded) encode() ([]byte, error) {
	var buffer bytes.Buffer
	err := gob.NewEncoder(&buffer).Encode(e.pointer)
	if err != nil {
		return nil, fmt.Errorf("farandole: a state of %T cannot be saved: %w", e.pointer, err)
	}
	return buffer.Bytes(), nil
}

func (e *encoded) decode(content []byte) error {
	// gob leaves out zeros, so that the old values would stay.
	reflect.ValueOf(e.pointer).Elem().SetZero()
	if err := gob.NewDecoder(bytes.NewReader(content)).Decode(e.pointer); err != nil {
		return fmt.Errorf("farandole: a state of %T cannot be read: %w", e.pointer, err)
	}
	return nil
}

func (e *encoded) save() error {
	content, err := e.encode()
	if err == nil {
		e.saved = slices.Clip(content)
	}
	return err
}

func (e *encoded) restore() error { return e.decode(e.saved) }

func (e *encoded) sync(ctx context.Context, job *Job, root int) error {
	content, err := e.encode()
	if err != nil {
		return err
	}
	sent := &tensor[uint8]{data: &content}
	if err := sent.sync(ctx, job, root); err != nil {
		return err
	}
	// The proof is short: it travels with what orders the collectives, which nobody can change.
	made, err := job.prove(fmt.Sprintf("go state %T of rank %d", e.pointer, root), content)
	if err != nil {
		return err
	}
	proof := slices.Clone(made)
	if err := BroadcastInPlace(ctx, job, proof, root); err != nil || job.Rank() == root {
		return err
	}
	if !bytes.Equal(proof, made) {
		return fault.New(fault.DataLoss, fmt.Sprintf("the state of rank %d was changed on its way over the network, and is "+
			"not decoded: it does not prove that a worker of this epoch has sent it", root))
	}
	return e.decode(content)
}
