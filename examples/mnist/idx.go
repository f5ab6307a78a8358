package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/filelink"
)

const (
	side   = 28          // side of an image, in pixels
	pixels = side * side // values of an image, rows from top to bottom
	digits = 10
)

// A set is labelled images.
type set struct {
	images []float32 // pixels of each image, 0 (paper) to 1 (ink)
	labels []byte    // 0 to 9
}

func (s *set) len() int { return len(s.labels) }

// cut shortens the set to a multiple of the batch, and returns how many samples it drops.
func (s *set) cut(batch int) (dropped int) {
	n := s.len() / batch * batch
	dropped = s.len() - n
	s.images, s.labels = s.images[:n*pixels], s.labels[:n]
	return dropped
}

// Prefixes of the names of MNIST's files.
const trainPrefix, testPrefix = "train", "t10k"

// setPaths returns the paths of a set's two IDX files.
func setPaths(folder, prefix string) (images, labels string) {
	return filepath.Join(folder, prefix+"-images-idx3-ubyte"), filepath.Join(folder, prefix+"-labels-idx1-ubyte")
}

// readSet reads the two IDX files of a set.
func readSet(folder, prefix string) (*set, error) {
	imagesPath, labelsPath := setPaths(folder, prefix)
	images, err := readIDX(imagesPath, side, side)
	if err != nil {
		return nil, err
	}
	labels, err := readIDX(labelsPath)
	if err != nil {
		return nil, err
	}
	if len(images) != len(labels)*pixels {
		return nil, fmt.Errorf("%s has %s, but %s has %s", imagesPath, cli.Count(len(images)/pixels, "image"), labelsPath, cli.Count(len(labels), "label"))
	}
	s := &set{images: make([]float32, len(images)), labels: labels}
	for i, b := range images {
		s.images[i] = float32(b) / 255
	}
	for i, l := range labels {
		if l >= digits {
			return nil, fmt.Errorf("%s: label %d is %d; it must be 0 to 9", labelsPath, i, l)
		}
	}
	return s, nil
}

// readIDX reads the bytes of an IDX file whose items have the given sizes.
func readIDX(path string, item ...int) ([]byte, error) {
	f, _, err := filelink.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := parseIDX(bufio.NewReader(f), item)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// parseIDX parses an IDX file: two zero bytes, the type of its numbers (8 for bytes), the number of dimensions,
// each size in 4 bytes, big-endian, and the numbers.
func parseIDX(r io.Reader, item []int) ([]byte, error) {
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, errors.New("the file is shorter than the header of an IDX file")
	}
	switch {
	case magic[0] == 0x1f && magic[1] == 0x8b:
		return nil, errors.New("the file is compressed; unpack it with gunzip")
	case magic[0] != 0 || magic[1] != 0:
		return nil, fmt.Errorf("this is not an IDX file: it begins with % x", magic)
	case magic[2] != 8:
		return nil, fmt.Errorf("the elements have type 0x%02x; expected bytes, 0x08", magic[2])
	case int(magic[3]) != 1+len(item):
		return nil, fmt.Errorf("the file has %s; it must have %d", cli.Count(int(magic[3]), "dimension"), 1+len(item))
	}
	sizes := make([]uint32, magic[3])
	if err := binary.Read(r, binary.BigEndian, sizes); err != nil {
		return nil, errors.New("the file ends within its header")
	}
	want := int64(sizes[0])
	for i, n := range item {
		if int(sizes[1+i]) != n {
			return nil, fmt.Errorf("dimension %d has the size %d; it must be %d", 1+i, sizes[1+i], n)
		}
		want *= int64(n)
	}
	// Reading one byte more detects excess data; memory grows only with the file.
	data, err := io.ReadAll(io.LimitReader(r, want+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != want {
		return nil, fmt.Errorf("expected %d bytes after the header: the file is cut off, or has extra bytes at its end", want)
	}
	return data, nil
}
