package clitest

import (
	"fmt"
	"os"
	"strings"

	"github.com/goggml/ggml"
)

// Condition is what scripts ask by [device:NAME]: whether there is such a device; by [env:NAME]: whether there is such a
// variable around the tests; by [root]: whether permissions hinder nobody; and by [llama.cpp]: whether advice is run by it.
func Condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Geteuid() == 0, nil
	case "llama.cpp":
		return os.Getenv(StockRun) != "", nil
	}
	if name, ok := strings.CutPrefix(cond, "env:"); ok {
		return os.Getenv(name) != "", nil
	}
	name, ok := strings.CutPrefix(cond, "device:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	_, err := ggml.DeviceByName(name)
	return err == nil, nil
}
