"""The lab: tiny models really trained on the CPU, healthy and with an injected fault, to test the detectors on."""
