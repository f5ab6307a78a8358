//go:build ignore

// Extract writes the tokenizer.ggml keys of a GGUF file as gzipped JSON, the
// form in which the tests keep vocabularies:
//
//	go run testdata/extract.go MODEL.gguf testdata/vocab-NAME.json.gz
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"os"
	"strings"
)

// GGUF value types.
const (
	typeBool   = 7
	typeString = 8
	typeArray  = 9
)

var scalars = map[uint32]func() any{
	0: func() any { return new(uint8) }, 1: func() any { return new(int8) },
	2: func() any { return new(uint16) }, 3: func() any { return new(int16) },
	4: func() any { return new(uint32) }, 5: func() any { return new(int32) },
	6: func() any { return new(float32) }, typeBool: func() any { return new(bool) },
	10: func() any { return new(uint64) }, 11: func() any { return new(int64) },
	12: func() any { return new(float64) },
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: extract MODEL.gguf OUT.json.gz")
	}
	in, err := os.Open(os.Args[1])
	check(err)
	r := bufio.NewReader(in)
	var head struct {
		Magic, Version uint32
		Tensors, Keys  uint64
	}
	read(r, &head)
	if head.Magic != 0x46554747 {
		log.Fatal(os.Args[1], " is not a GGUF file")
	}
	keys := map[string]any{}
	for range head.Keys {
		key := readString(r)
		value := readValue(r, readType(r))
		if strings.HasPrefix(key, "tokenizer.ggml.") {
			keys[key] = value
		}
	}
	out, err := os.Create(os.Args[2])
	check(err)
	zip := gzip.NewWriter(out)
	check(json.NewEncoder(zip).Encode(keys))
	check(zip.Close())
	check(out.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func read(r io.Reader, to any) { check(binary.Read(r, binary.LittleEndian, to)) }

func readType(r io.Reader) (t uint32) {
	read(r, &t)
	return t
}

func readString(r io.Reader) string {
	var n uint64
	read(r, &n)
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	check(err)
	return string(b)
}

func readValue(r io.Reader, kind uint32) any {
	switch kind {
	case typeString:
		return readString(r)
	case typeArray:
		item := readType(r)
		var n uint64
		read(r, &n)
		items := make([]any, n)
		for i := range items {
			items[i] = readValue(r, item)
		}
		return items
	}
	make, ok := scalars[kind]
	if !ok {
		log.Fatalf("value type %d is unknown", kind)
	}
	v := make()
	read(r, v)
	return v
}
