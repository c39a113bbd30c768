"""Reads traces of Perfetto with Perfetto's own schema, and checks snapshots for PyTorch's memory_viz."""
import collections
import importlib

SCHEMA = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
MOST = (1 << 63) - 1  # times and values are signed numbers in Perfetto's tables

Slice = collections.namedtuple("Slice", "begin end name args track")
Instant = collections.namedtuple("Instant", "time name args track")


def arguments(event):
    """The arguments of an event, of which no two have the same name."""
    found = {}
    for one in event.debug_annotations:
        if one.name in found:
            raise AssertionError(f"two arguments {one.name}")
        value = one.WhichOneof("value")
        texts = [element.string_value for element in one.array_values]
        found[one.name] = texts if value is None else getattr(one, value)
    return found


class PerfettoTrace:
    def __init__(self, schema, path):
        self.schema = schema
        self.trace = schema.Trace()
        with open(path, "rb") as file:
            self.trace.ParseFromString(file.read())
        self.tracks = {packet.track_descriptor.uuid: packet.track_descriptor for packet in self.trace.packet
                       if packet.HasField("track_descriptor")}
        self.events = [packet for packet in self.trace.packet if packet.HasField("track_event")]

    def named(self, name):
        return {uuid for uuid, track in self.tracks.items() if track.name == name}

    def processes(self):
        return [track.process for track in self.tracks.values() if track.HasField("process")]

    def slices(self, track):
        found, begun = [], {}
        for packet in self.events:
            event = packet.track_event
            if event.track_uuid not in self.named(track):
                continue
            if event.type == event.TYPE_SLICE_BEGIN:
                begun[event.track_uuid] = packet
            elif event.type == event.TYPE_SLICE_END:
                begin = begun.pop(event.track_uuid)
                found.append(Slice(begin.timestamp, packet.timestamp, begin.track_event.name,
                                   arguments(begin.track_event), event.track_uuid))
        if begun:
            raise AssertionError("slices without an end")
        return found

    def instants(self, track):
        return [Instant(packet.timestamp, packet.track_event.name, arguments(packet.track_event),
                        packet.track_event.track_uuid)
                for packet in self.events if packet.track_event.track_uuid in self.named(track)]

    def counters(self):
        """Times and values, by the names of tracks."""
        found = collections.defaultdict(list)
        for packet in self.events:
            if packet.track_event.type == packet.track_event.TYPE_COUNTER:
                found[self.tracks[packet.track_event.track_uuid].name].append(
                    (packet.timestamp, packet.track_event.counter_value))
        return found

    def check(self, test):
        """All that a trace must have, whatever it shows."""
        self.check_fields_are_known(test, self.trace)
        packets = self.trace.packet
        test.assertEqual(packets[0].sequence_flags, self.schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
        test.assertEqual({packet.trusted_packet_sequence_id for packet in packets}, {1})
        descriptors = [packet for packet in packets if packet.HasField("track_descriptor")]
        test.assertEqual(len(self.tracks), len(descriptors))
        test.assertNotIn(0, self.tracks)
        pids = [process.pid for process in self.processes()]
        test.assertEqual(len(set(pids)), len(pids))
        test.assertTrue(all(pid > 0 for pid in pids))
        for uuid, track in self.tracks.items():
            test.assertTrue(track.name)
            if track.HasField("parent_uuid"):
                test.assertLess(track.parent_uuid, uuid)
                test.assertIn(track.parent_uuid, self.tracks)
        # A track stands before its events, and the events are in the order of time.
        test.assertEqual(list(packets[1:]), descriptors + self.events)
        times = [packet.timestamp for packet in self.events]
        test.assertEqual(times, sorted(times))
        depth = collections.Counter()
        for packet in self.events:
            event = packet.track_event
            test.assertTrue(packet.HasField("timestamp"))
            test.assertLessEqual(packet.timestamp, MOST)
            is_counter = self.tracks[event.track_uuid].HasField("counter")
            test.assertEqual(event.type == event.TYPE_COUNTER, is_counter)
            test.assertEqual(event.HasField("counter_value"), is_counter)
            if is_counter:
                test.assertGreaterEqual(event.counter_value, 0)
            elif event.type != event.TYPE_SLICE_END:
                test.assertTrue(event.name)
            depth[event.track_uuid] += {event.TYPE_SLICE_BEGIN: 1, event.TYPE_SLICE_END: -1}.get(event.type, 0)
            test.assertIn(depth[event.track_uuid], (0, 1))
            arguments(event)
        test.assertFalse(any(depth.values()))

    def check_fields_are_known(self, test, message):
        unknown = importlib.import_module("google.protobuf.unknown_fields")
        test.assertEqual(len(unknown.UnknownFieldSet(message)), 0, message)
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                for one in [value] if hasattr(value, "ListFields") else value:
                    self.check_fields_are_known(test, one)


# The fields of torch.cuda.memory._snapshot() that torch/cuda/_memory_viz.py and MemoryViz.js read, and their types.
SEGMENT = {"device": int, "address": int, "total_size": int, "allocated_size": int, "active_size": int,
           "requested_size": int, "stream": int, "segment_type": str, "is_expandable": bool, "frames": list,
           "blocks": list}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
FRAME = {"name": str, "filename": str, "line": int}


def check_snapshot(test, snapshot):
    def check(one, fields):
        test.assertEqual({key: type(value) for key, value in one.items()}, fields)

    check(snapshot, {"segments": list, "device_traces": list})
    test.assertTrue(all(trace == [] for trace in snapshot["device_traces"]))
    blocks = collections.Counter()
    for segment in snapshot["segments"]:
        check(segment, SEGMENT)
        test.assertLess(segment["device"], len(snapshot["device_traces"]))
        test.assertEqual(segment["segment_type"], "large" if segment["total_size"] > 1 << 20 else "small")
        (block,) = segment["blocks"]
        check(block, BLOCK)
        test.assertEqual(block["state"], "active_allocated")
        # The reader computes addresses from sizes, and divides by the size of a segment.
        test.assertEqual(block["address"], segment["address"])
        test.assertGreater(block["size"], 0)
        test.assertEqual({block["size"], block["requested_size"]},
                         {segment[key] for key in SEGMENT if key.endswith("_size")})
        test.assertTrue(block["frames"])
        test.assertIs(block["frames"], segment["frames"])
        for frame in block["frames"]:
            check(frame, FRAME)
        blocks[segment["device"], block["address"]] += 1
    return blocks
