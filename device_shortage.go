package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"strings"
)

// shortage describes an allocation that a device cannot hold, as in "out of memory: 3.4 GiB are
// needed on CUDA0, which has 1.2 GiB free of 8 GiB". It names all devices if each seems to have
// enough memory, which may be fragmented. It returns "" if nothing is known.
func shortage(needs ...memoryUse) string {
	var short, all []string
	for _, n := range needs {
		d := &Device{n.device}
		if n.device == nil {
			var err error
			if d, err = DeviceByType(CPU); err != nil {
				continue
			}
		}
		if n.bytes <= 0 || d.Type() == MetaDevice {
			continue
		}
		p := d.Properties()
		part := fmt.Sprintf("%s are needed on %s", byteCount(n.bytes), d.Name())
		switch {
		case p.MemoryTotal <= 0:
		case p.Type == CPU: // ggml does not know its free memory
			part += ", which has " + byteCount(p.MemoryTotal)
		default:
			part += ", which has " + p.room()
		}
		all = append(all, part)
		if p.MemoryTotal > 0 && n.bytes > p.MemoryFree {
			short = append(short, part)
		}
	}
	if short != nil {
		all = short
	}
	if all == nil {
		return ""
	}
	return ": " + strings.Join(all, ", and ")
}

// room describes the free memory of the device.
func (p DeviceProperties) room() string {
	return fmt.Sprintf("%s free of %s", byteCount(p.MemoryFree), byteCount(p.MemoryTotal))
}

// rooms describes the free memory of the backends' devices after a computation ran out of memory.
func rooms(backends []*Backend) string {
	var list []string
	for _, b := range backends {
		if p := b.device.Properties(); p.Type != CPU && p.MemoryTotal > 0 {
			list = append(list, b.device.Name()+" has "+p.room())
		}
	}
	if list == nil {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}
