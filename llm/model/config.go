package model

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
)

// A Config is the hyper-parameters of a model.
type Config = arch.Config

// A LoRAPair is the low-rank change of one matrix.
type LoRAPair = nn.LoRAPair

// Adapters are the pairs of all adapters in use, by the name of the matrix.
type Adapters = nn.Adapters

// ErrUnsupported is a model of a kind that this package does not compute.
var ErrUnsupported = arch.ErrUnsupported

// Architectures lists the values of general.architecture that are supported.
func Architectures() []string { return arch.Architectures() }

// ReadConfig reads the hyper-parameters from a GGUF file. The error lists all that is
// missing or wrong.
func ReadConfig(g *ggml.GGUF) (Config, error) { return arch.ReadConfig(g) }
