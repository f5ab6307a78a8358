package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/mapped"
)

// A token file holds samples. It has a header, followed by these sections, little-endian:
//
//	samples  of each: as varints its label, its origin, its tokens, and the number of runs of
//	         words, with the length of each; unless all weights are 1, runs of equal
//	         weights, each a varint of its length and a float32
//	ends     uint64 of each sample: its end offset, from the beginning of the first
//	lengths  uint32 of each sample: its number of tokens
//	report   of records that were skipped or have notes, see report
//	sums     uint32 of each MiB of the sections above: its CRC-32C
type header struct {
	Magic   [8]byte
	Version uint32
	Sum     uint32 // CRC-32C of the header with this field 0

	SampleBytes uint64 // size of all samples
	Samples     uint64
	ReportBytes uint64
	MaxToken    int32
	Longest     uint32 // number of tokens
	Fingerprint [16]byte
	Stats       storedStats
}

const (
	tokenFileVersion = 7
	sumBlock         = 1 << 20
)

var (
	tokenFileMagic = [8]byte{'g', 'o', 'g', 'g', 'm', 'l', 't', 'k'}
	headerSize     = binary.Size(header{})
	castagnoli     = crc32.MakeTable(crc32.Castagnoli)
)

func (h header) encode() []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h)
	return b.Bytes()
}

// sum returns the checksum of the header.
func (h header) sum() uint32 {
	h.Sum = 0
	return crc32.Checksum(h.encode(), castagnoli)
}

// lengthsAt returns the file offset of the lengths; reportAt returns their end.
func (h header) lengthsAt() int64 { return int64(headerSize) + int64(h.SampleBytes+8*h.Samples) }
func (h header) reportAt() int64  { return h.lengthsAt() + 4*int64(h.Samples) }

// body returns the size of all sections with checksums.
func (h header) body() int64 { return h.reportAt() + int64(h.ReportBytes) - int64(headerSize) }

// check validates the header of a file of that size.
func (h header) check(size int64) error {
	const most = 1 << 50 // bytes or samples: sums are exact
	switch {
	case h.Magic != tokenFileMagic:
		return errors.New("it is not a token file")
	case h.Version != tokenFileVersion:
		return fmt.Errorf("it is of version %d, not %d", h.Version, tokenFileVersion)
	case h.Sum != h.sum():
		return errors.New("its header is damaged")
	case h.SampleBytes > most || h.Samples > math.MaxUint32 || h.ReportBytes > most:
		return errors.New("its header is wrong")
	}
	blocks := (h.body() + sumBlock - 1) / sumBlock
	if want := int64(headerSize) + h.body() + 4*blocks; size != want {
		return fmt.Errorf("it has %d bytes instead of %d", size, want)
	}
	return nil
}

// tokenFile holds the samples of a token file. Only their lengths are in memory.
type tokenFile struct {
	file    *mapped.File
	head    header
	lengths []uint32
	report  report
}

// readTokenFile takes ownership of the file, and closes it if it is not a complete token file.
func readTokenFile(file *os.File) (_ *tokenFile, err error) {
	m, err := mapped.New(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	f := &tokenFile{file: m}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := binary.Read(io.NewSectionReader(file, 0, int64(headerSize)), binary.LittleEndian, &f.head); err != nil {
		return nil, fmt.Errorf("its header is cut off: %w", err)
	}
	if err := f.head.check(m.Size()); err != nil {
		return nil, err
	}
	if err := f.verify(file); err != nil {
		return nil, err
	}
	f.lengths = make([]uint32, f.head.Samples)
	at := f.head.lengthsAt()
	if err := binary.Read(io.NewSectionReader(file, at, math.MaxInt64-at), binary.LittleEndian, f.lengths); err != nil {
		return nil, err
	}
	if f.report, err = decodeReport(io.NewSectionReader(file, f.head.reportAt(), int64(f.head.ReportBytes))); err != nil {
		return nil, err
	}
	// If nobody closes it, the file is unmapped with the last data set that uses it.
	runtime.AddCleanup(f, func(m *mapped.File) { m.Close() }, m)
	return f, nil
}

// verify compares all checksums. It reads the file instead of mapping it: touched pages of a mapping
// count as memory of the process.
func (f *tokenFile) verify(file *os.File) error {
	body := f.head.body()
	sums := make([]uint32, (body+sumBlock-1)/sumBlock)
	at := int64(headerSize) + body
	if err := binary.Read(io.NewSectionReader(file, at, math.MaxInt64-at), binary.LittleEndian, sums); err != nil {
		return err
	}
	return eachBlock(file, int64(headerSize), body, sumBlock, func(i int, block []byte) error {
		if crc32.Checksum(block, castagnoli) != sums[i] {
			return fmt.Errorf("its block %d is damaged", i)
		}
		return nil
	})
}

func (f *tokenFile) len() int            { return len(f.lengths) }
func (f *tokenFile) tokens(i int) int    { return int(f.lengths[i]) }
func (f *tokenFile) fingerprint() string { return fmt.Sprintf("%x", f.head.Fingerprint[:]) }
func (f *tokenFile) close() error        { return f.file.Close() }

func (f *tokenFile) check(length, vocab int) error {
	switch h := f.head; {
	case int(h.MaxToken) >= vocab:
		return fmt.Errorf("the data set has token %d; the vocabulary has %d", h.MaxToken, vocab)
	case int(h.Longest) > length+1:
		return fmt.Errorf("the data set has a sample of %s; at most %d fit", counted.Of(h.Longest, "token"), length+1)
	}
	return nil
}

func (f *tokenFile) sample(i int) (Sample, error) {
	defer runtime.KeepAlive(f)
	from, to, err := f.bounds(i)
	if err != nil {
		return Sample{}, err
	}
	raw := make([]byte, to-from)
	if _, err := f.file.ReadAt(raw, int64(headerSize)+from); err != nil && err != io.EOF {
		return Sample{}, err
	}
	return decodeSample(raw, int(f.lengths[i]))
}

// bounds returns the begin and end of a sample, from the beginning of the first.
func (f *tokenFile) bounds(i int) (from, to int64, err error) {
	ends := make([]byte, 16) // of the previous sample and of this one
	first := max(0, i-1)
	own := ends[:8*(i-first+1)]
	if _, err := f.file.ReadAt(own, int64(headerSize)+int64(f.head.SampleBytes)+8*int64(first)); err != nil && err != io.EOF {
		return 0, 0, err
	}
	if i > 0 {
		from, own = int64(binary.LittleEndian.Uint64(own)), own[8:]
	}
	to = int64(binary.LittleEndian.Uint64(own))
	if from < 0 || to < from || to > int64(f.head.SampleBytes) {
		return 0, 0, errDamaged
	}
	return from, to, nil
}

var errDamaged = errors.New("it is damaged")

// encodeSample appends an encoded sample.
func encodeSample(raw []byte, s Sample) []byte {
	for _, n := range []int{int(s.Label), s.Origin.File, s.Origin.Line, s.Origin.Token} {
		raw = binary.AppendUvarint(raw, uint64(n))
	}
	raw = append(binary.AppendUvarint(raw, uint64(len(s.Teacher))), s.Teacher...)
	for _, token := range s.Tokens {
		raw = binary.AppendUvarint(raw, uint64(uint32(token)))
	}
	runs := runsOf(s.Words)
	raw = binary.AppendUvarint(raw, uint64(len(runs)))
	for _, run := range runs {
		raw = binary.AppendUvarint(raw, uint64(run))
	}
	if allOne(s.LossWeights) {
		return raw
	}
	for rest := s.LossWeights; len(rest) > 0; {
		run := 1
		for run < len(rest) && rest[run] == rest[0] {
			run++
		}
		raw = binary.AppendUvarint(raw, uint64(run))
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(rest[0]))
		rest = rest[run:]
	}
	return raw
}

// runsOf returns the lengths of runs of equal values. The first run is of false, and may be empty.
func runsOf(list []bool) (runs []int) {
	for value := false; len(list) > 0; value = !value {
		run := slices.Index(list, !value)
		if run < 0 {
			run = len(list)
		}
		runs, list = append(runs, run), list[run:]
	}
	return runs
}

// decodeSample decodes a sample of the given number of tokens.
func decodeSample(raw []byte, tokens int) (Sample, error) {
	if tokens > len(raw) { // each takes at least a byte
		return Sample{}, errDamaged
	}
	r := sampleDecoder{raw: raw}
	s := Sample{Label: Label(r.number(int(Mismatched))), Tokens: make([]int32, tokens)}
	s.Origin = Origin{File: r.number(math.MaxInt), Line: r.number(math.MaxInt), Token: r.number(math.MaxInt)}
	s.Teacher = r.text()
	for i := range s.Tokens {
		s.Tokens[i] = int32(r.number(math.MaxInt32))
	}
	for i := range r.number(len(raw)) {
		s.Words = append(s.Words, slices.Repeat([]bool{i%2 != 0}, r.number(tokens-len(s.Words)))...)
	}
	for len(r.raw) > 0 {
		run := r.number(s.Predicted() - len(s.LossWeights))
		s.LossWeights = append(s.LossWeights, slices.Repeat([]float32{r.float32()}, run)...)
	}
	if r.damaged || s.Words != nil && len(s.Words) != tokens || s.LossWeights != nil && len(s.LossWeights) != s.Predicted() {
		return Sample{}, errDamaged
	}
	return s, nil
}

// A sampleDecoder reads the numbers of a sample; after damage all further ones are 0.
type sampleDecoder struct {
	raw     []byte
	damaged bool
}

// number reads a varint of at most `most`.
func (r *sampleDecoder) number(most int) int {
	x, n := binary.Uvarint(r.raw)
	if n <= 0 || x > uint64(most) {
		r.fail()
		return 0
	}
	r.raw = r.raw[n:]
	return int(x)
}

func (r *sampleDecoder) float32() float32 {
	if len(r.raw) < 4 {
		r.fail()
		return 0
	}
	x := math.Float32frombits(binary.LittleEndian.Uint32(r.raw))
	r.raw = r.raw[4:]
	return x
}

// text reads a text after its length.
func (r *sampleDecoder) text() string {
	n := r.number(len(r.raw))
	if n > len(r.raw) { // the length itself took bytes
		r.fail()
		return ""
	}
	text := string(r.raw[:n])
	r.raw = r.raw[n:]
	return text
}

func (r *sampleDecoder) fail() { r.raw, r.damaged = nil, true }
