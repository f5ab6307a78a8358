package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"
)

// An eventFile writes the metrics for TensorBoard: TFRecord records, each an Event of protocol buffers. Each start
// of a run that takes a step or evaluates has its own file, whose first event gives the step from which it replaces
// earlier files.
type eventFile struct {
	folder string // "" disables the file
	step   int    // the run continues after this step
	file   *os.File
	err    error // the first error
}

// open creates the file, with a name that no other file has.
func (e *eventFile) open() (err error) {
	now := time.Now()
	for n := 0; ; n++ {
		// TensorBoard reads files with tfevents in their names, in the order of the names.
		name := fmt.Sprintf("events.out.tfevents.%010d.%d.%d", now.Unix(), os.Getpid(), n)
		e.file, err = os.OpenFile(filepath.Join(e.folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := e.write(event(now, 0, protoText(3, "brain.Event:2"))); err != nil {
		return err
	}
	return e.write(event(now, e.step+1, protoMessage(7, protoVarint(1, 1)))) // SessionLog START: TensorBoard drops later steps of earlier files
}

// add writes a line of the metrics.
func (e *eventFile) add(l Line) {
	if e.folder == "" || e.err != nil {
		return
	}
	if e.file == nil {
		if e.err = e.open(); e.err != nil {
			return
		}
	}
	var summary []byte
	scalar := func(tag string, x *float64) {
		if x != nil {
			value := append(protoText(1, tag), protoFloat(2, float32(*x))...)
			summary = append(summary, protoMessage(1, value)...)
		}
	}
	scalar("train/loss", l.Loss)
	scalar("train/learning_rate", l.LearningRate)
	scalar("train/grad_norm", l.GradNorm)
	scalar("eval/loss", l.EvalLoss)
	scalar("eval/perplexity", l.Perplexity)
	scalar("eval/accuracy", l.Accuracy)
	kind := map[bool]string{true: "train", false: "eval"}[l.Loss != nil]
	if d := l.Distilled; d != nil {
		scalar(kind+"/divergence", &d.Divergence)
		scalar(kind+"/cross_entropy", &d.CrossEntropy)
	}
	if r := l.Rewards; r != nil {
		for name, value := range map[string]*float64{"chosen": r.Chosen, "rejected": r.Rejected, "margin": r.Margin, "accuracy": r.Accuracy, "kl": r.KL} {
			scalar(kind+"/rewards/"+name, value)
		}
	}
	if l.Loss != nil {
		memory := float64(l.Memory)
		scalar("train/epoch", &l.Epoch)
		scalar("train/tokens_per_second", &l.TokensPerSecond)
		scalar("train/memory_bytes", &memory)
		if l.PeakShare > 0 {
			scalar("train/peak_share", &l.PeakShare)
		}
	}
	at, err := time.Parse(time.RFC3339, l.Time)
	if err != nil {
		at = time.Now()
	}
	e.err = e.write(event(at, l.Step, protoMessage(5, summary)))
}

// write appends an event as a record in one write, so that a reader seldom sees a partial one.
func (e *eventFile) write(event []byte) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(event)))
	record = binary.LittleEndian.AppendUint32(record, maskedCRC(record))
	record = append(record, event...)
	record = binary.LittleEndian.AppendUint32(record, maskedCRC(event))
	_, err := e.file.Write(record)
	return err
}

// close closes the file and returns the first error.
func (e *eventFile) close() error {
	if e.file == nil {
		return e.err
	}
	return errors.Join(e.err, e.file.Close())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC returns TFRecord's checksum.
func maskedCRC(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// event encodes an Event with the given fields.
func event(at time.Time, step int, what []byte) []byte {
	seconds := math.Float64bits(float64(at.UnixMilli()) / 1000)
	e := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, seconds)
	return append(append(e, protoVarint(2, uint64(step))...), what...)
}

// Protocol buffer fields: key and value.

func protoVarint(field int, x uint64) []byte {
	return binary.AppendUvarint([]byte{byte(field << 3)}, x)
}

func protoFloat(field int, x float32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{byte(field<<3 | 5)}, math.Float32bits(x))
}

func protoMessage(field int, message []byte) []byte {
	return append(binary.AppendUvarint([]byte{byte(field<<3 | 2)}, uint64(len(message))), message...)
}

func protoText(field int, text string) []byte { return protoMessage(field, []byte(text)) }
