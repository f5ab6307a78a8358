package distill

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// A file of scores has a header and a record for each sample, in the order of the data, little-endian: its size and its
// CRC-32C as uint32, and then
//
//	key     16 bytes: the hash of the sample
//	trained the number of trained tokens, a varint
//	tokens  for each of these the k likeliest by the teacher, varints
//	probs   for each of these float32 of the k, and of all others together
const formatVersion = 1

var (
	magic      = [8]byte{'g', 'o', 'g', 'g', 'm', 'l', 't', 's'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

type header struct {
	Magic         [8]byte
	Version, TopK uint32
	Key           [16]byte
	Sum           uint32 // CRC-32C of the above
}

// A frame precedes each record.
type frame struct{ Size, Sum uint32 }

const frameSize = 8

// maxRecord is the largest size of a record in bytes; a longer record is damaged.
const maxRecord = 1 << 31

// A writer writes the records that a file lacks.
type writer struct {
	options Options
	teacher func() (*Scorer, error)
	key     [16]byte
	total   int // tokens of all samples
}

func (w *writer) header() []byte {
	h := header{Magic: magic, Version: formatVersion, TopK: uint32(w.options.TopK), Key: w.key}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h)
	raw := b.Bytes()
	binary.LittleEndian.PutUint32(raw[len(raw)-4:], crc32.Checksum(raw[:len(raw)-4], castagnoli))
	return raw
}

// readRecords reads the places of all whole records, and returns the end of the last one.
func readRecords(file *os.File, head []byte) (s *Scores, end int64, err error) {
	r := io.NewSectionReader(file, 0, math.MaxInt64)
	own := make([]byte, len(head))
	if _, err := io.ReadFull(r, own); err != nil || !bytes.Equal(own, head) {
		return nil, 0, errors.New("its header is damaged")
	}
	s = &Scores{file: file, topK: int(binary.LittleEndian.Uint32(head[12:])), records: map[sampleKey]place{}}
	var raw []byte
	for end = int64(len(head)); ; {
		var f frame
		if binary.Read(r, binary.LittleEndian, &f) != nil || f.Size < uint32(len(sampleKey{})) || f.Size > maxRecord {
			return s, end, nil
		}
		if cap(raw) < int(f.Size) {
			info, err := file.Stat()
			if err != nil || int64(f.Size) > info.Size()-end {
				return s, end, err
			}
			raw = make([]byte, f.Size)
		}
		raw = raw[:f.Size]
		if _, err := io.ReadFull(r, raw); err != nil || crc32.Checksum(raw, castagnoli) != f.Sum {
			return s, end, nil
		}
		s.records[sampleKey(raw)] = place{end + frameSize, int64(f.Size)}
		end += frameSize + int64(f.Size)
	}
}

// fill writes the records that the file lacks. It takes ownership of the file; after an error, the whole records stay in
// it.
func (w *writer) fill(ctx context.Context, file *os.File, sets []*data.Dataset) (_ *Scores, err error) {
	s, err := w.begin(file)
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if err != nil {
		return nil, writeError(err)
	}
	s.fromCache = len(s.records)
	var scorer *Scorer
	done := 0
	err = eachSample(sets, func(x data.Sample) error {
		done += x.Predicted()
		key := keyOf(x)
		if _, ok := s.records[key]; ok {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if scorer == nil {
			if scorer, err = w.teacher(); err != nil {
				return err
			}
			if scorer != nil && scorer.options.TopK != w.options.TopK {
				return fmt.Errorf("the scorer has %d tokens for each trained one, and the scores are to have %d; give both the same options", scorer.options.TopK, w.options.TopK)
			}
		}
		t, err := scorer.Score(ctx, x)
		if err != nil {
			return err
		}
		if err := s.append(key, t); err != nil {
			return writeError(err)
		}
		w.options.Progress(done, w.total)
		return nil
	})
	return s, err
}

func writeError(err error) error {
	return fmt.Errorf("the teacher's scores cannot be written: %w; free some space, or name another folder for caches", filelink.SystemError(err))
}

// begin reads the whole records of a pending file, and cuts off what follows them.
func (w *writer) begin(file *os.File) (*Scores, error) {
	head := w.header()
	s, end, err := readRecords(file, head)
	if err != nil {
		if err := file.Truncate(0); err != nil {
			return nil, err
		}
		if _, err := file.WriteAt(head, 0); err != nil {
			return nil, err
		}
		s, end, err = readRecords(file, head)
	}
	if err == nil {
		err = file.Truncate(end)
	}
	return s, err
}

// append writes a record at the end of the file.
func (s *Scores) append(key sampleKey, t train.Taught) error {
	end, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	raw := encodeRecord(make([]byte, frameSize), key, t)
	body := raw[frameSize:]
	binary.LittleEndian.PutUint32(raw, uint32(len(body)))
	binary.LittleEndian.PutUint32(raw[4:], crc32.Checksum(body, castagnoli))
	if _, err := s.file.WriteAt(raw, end); err != nil {
		return errors.Join(err, s.file.Truncate(end))
	}
	s.records[key] = place{end + frameSize, int64(len(body))}
	return nil
}

func encodeRecord(raw []byte, key sampleKey, t train.Taught) []byte {
	raw = append(raw, key[:]...)
	raw = binary.AppendUvarint(raw, uint64(len(t.Probs)-len(t.Tokens)))
	for _, id := range t.Tokens {
		raw = binary.AppendUvarint(raw, uint64(uint32(id)))
	}
	for _, p := range t.Probs {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(p))
	}
	return raw
}

var errDamaged = errors.New("the teacher's scores are damaged")

// decodeRecord decodes a record without its frame.
func decodeRecord(raw []byte, k int) (t train.Taught, err error) {
	next := func() int {
		n, size := binary.Uvarint(raw)
		if size <= 0 || n > math.MaxInt32 {
			err, raw = errDamaged, nil
			return 0
		}
		raw = raw[size:]
		return int(n)
	}
	raw = raw[min(len(raw), len(sampleKey{})):]
	trained := next()
	if trained > len(raw)/(k+4*(k+1)) { // each takes at least that many bytes
		return t, errDamaged
	}
	t = train.Taught{Tokens: make([]int32, trained*k), Probs: make([]float32, trained*(k+1))}
	for i := range t.Tokens {
		t.Tokens[i] = int32(next())
	}
	if err != nil || len(raw) != 4*len(t.Probs) {
		return train.Taught{}, errDamaged
	}
	for i := range t.Probs {
		t.Probs[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return t, nil
}
