package data

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
)

// A tokenWriter writes a token file sample by sample. It needs eight bytes of memory per sample.
type tokenWriter struct {
	file *os.File
	sums *summingWriter
	w    *bufio.Writer
	head header
	hash hash.Hash
	raw  []byte // encoded sample, reused

	sizes, lengths []uint32
	report         report // set before finish
}

// newTokenWriter starts a token file in an empty file.
func newTokenWriter(file *os.File) (*tokenWriter, error) {
	if _, err := file.Seek(int64(headerSize), io.SeekStart); err != nil {
		return nil, err
	}
	sums := &summingWriter{w: file}
	return &tokenWriter{
		file: file, sums: sums, w: bufio.NewWriterSize(sums, 1<<18), hash: sha256.New(),
		head: header{Magic: tokenFileMagic, Version: tokenFileVersion, MaxToken: -1},
	}, nil
}

// add writes a sample that [Sample.check] accepts.
func (w *tokenWriter) add(s Sample) error {
	if len(w.lengths) == math.MaxUint32 {
		return errors.New("there are more than 2³² samples; make several data sets of them")
	}
	for _, token := range s.Tokens {
		w.head.MaxToken = max(w.head.MaxToken, token)
	}
	w.head.Longest = max(w.head.Longest, uint32(len(s.Tokens)))
	s.hash(w.hash)
	w.raw = encodeSample(w.raw[:0], s)
	w.head.SampleBytes += uint64(len(w.raw))
	w.sizes, w.lengths = append(w.sizes, uint32(len(w.raw))), append(w.lengths, uint32(len(s.Tokens)))
	_, err := w.w.Write(w.raw)
	return err
}

// finish writes the sections after the samples, and then the header, without which the file is
// invalid.
func (w *tokenWriter) finish(stats Stats) error {
	report, err := w.report.encode()
	if err != nil {
		return err
	}
	w.head.ReportBytes = uint64(len(report))
	w.head.Samples, w.head.Stats = uint64(len(w.lengths)), stats.stored()
	copy(w.head.Fingerprint[:], w.hash.Sum(nil))
	end := uint64(0)
	for _, size := range w.sizes {
		end += uint64(size)
		if err := binary.Write(w.w, binary.LittleEndian, end); err != nil {
			return err
		}
	}
	w.sizes = nil
	if err := binary.Write(w.w, binary.LittleEndian, w.lengths); err != nil {
		return err
	}
	if _, err := w.w.Write(report); err != nil {
		return err
	}
	if err := w.w.Flush(); err != nil {
		return err
	}
	if err := binary.Write(w.file, binary.LittleEndian, w.sums.finish()); err != nil {
		return err
	}
	w.head.Sum = w.head.sum()
	_, err = w.file.WriteAt(w.head.encode(), 0)
	return err
}

// A summingWriter computes the checksum of each block that it writes.
type summingWriter struct {
	w    io.Writer
	sums []uint32
	sum  uint32 // of the incomplete block
	n    int    // bytes in it
}

func (s *summingWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), sumBlock-s.n)
		s.sum, s.n = crc32.Update(s.sum, castagnoli, rest[:n]), s.n+n
		if rest = rest[n:]; s.n == sumBlock {
			s.sums, s.sum, s.n = append(s.sums, s.sum), 0, 0
		}
	}
	return s.w.Write(p)
}

// finish returns the checksums of all blocks, including an incomplete last one.
func (s *summingWriter) finish() []uint32 {
	if s.n > 0 {
		s.sums, s.sum, s.n = append(s.sums, s.sum), 0, 0
	}
	return s.sums
}
