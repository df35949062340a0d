from __future__ import annotations

import pytest

from linkqual.stats import throughput as t

MS = 1_000_000


@pytest.mark.parametrize(
    ("rate", "mtu", "fps", "plain", "stamped"),
    [
        (1e9, 1500, 81274.38, 0.949285, 0.941482),
        (10e9, 1500, 812743.82, 9.492848, 9.414824),
        (100e9, 1500, 8127438.23, 94.928479, 94.148244),
        (400e9, 1500, 32509752.93, 379.713914, 376.592978),
        (1e9, 9000, 13830.49, 0.991370, 0.990042),
        (10e9, 9000, 138304.93, 9.913698, 9.900420),
        (100e9, 9000, 1383049.35, 99.136977, 99.004204),
        (400e9, 9000, 5532197.39, 396.547909, 396.016818),
    ],
)
def test_goodput_the_headers_allow(rate, mtu, fps, plain, stamped):
    assert t.frame_rate(rate, mtu) == pytest.approx(fps, abs=0.006)
    assert t.header_goodput(rate, mtu, 4, timestamps=False) / 1e9 == pytest.approx(plain, abs=6e-7)
    assert t.header_goodput(rate, mtu, 4) / 1e9 == pytest.approx(stamped, abs=6e-7)


def test_what_the_rate_counts_and_the_ip_version_matter():
    assert t.header_goodput(1e9, 1500, counts="l3") == pytest.approx(1e9 * 1448 / 1500)
    assert t.header_goodput(1e9, 1500, counts="l2") == pytest.approx(1e9 * 1448 / 1518)
    assert t.header_goodput(1e9, 1500, 6) == pytest.approx(1e9 * 1428 / 1538)
    assert t.header_goodput(1e9, 1500, vlan_tags=1) == pytest.approx(1e9 * 1448 / 1542)
    assert t.header_goodput(1e9, 1500, counts="l3", vlan_tags=1) == t.header_goodput(1e9, 1500, counts="l3")


def test_a1_nine_point_four_one_of_ten_is_the_whole_of_it():
    assert 9.41e9 / t.header_goodput(10e9, 1500) == pytest.approx(0.9995, abs=5e-5)


def test_windows_and_delay():
    assert t.bdp_bytes(100e9, 5 * MS) == 62_500_000
    assert t.window_limit(4.19e6, 12 * MS) == pytest.approx(2.79e9, rel=2e-3)  # one stream of a long line
    assert t.bdp_bytes(10e9, 12 * MS) == 15e6


@pytest.mark.parametrize(
    ("mss", "rtt_ms", "p", "reno", "mathis", "cubic_window", "cubic"),
    [
        (1460, 1, 1e-5, 387.298, 4523.645, 387.298, 4523.645),
        (1460, 5, 1e-5, 387.298, 904.729, 387.298, 904.729),
        (1460, 30, 1e-5, 387.298, 150.788, 427.180, 166.315),
        (1460, 30, 1e-6, 1224.745, 476.834, 2402.210, 935.261),
        (1460, 30, 1e-7, 3872.983, 1507.882, 13508.622, 5259.357),
        (8960, 1, 1e-5, 387.298, 27761.545, 387.298, 27761.545),
        (8960, 5, 1e-5, 387.298, 5552.309, 387.298, 5552.309),
        (8960, 30, 1e-5, 387.298, 925.385, 427.180, 1020.676),
        (8960, 30, 1e-7, 3872.983, 9253.848, 13508.622, 32276.602),
    ],
)
def test_flows_that_loss_limits(mss, rtt_ms, p, reno, mathis, cubic_window, cubic):
    rtt = rtt_ms * MS
    found = (t.reno_window(p), t.mathis(mss, rtt, p) / 1e6, t.cubic_window(p, rtt), t.cubic(mss, rtt, p) / 1e6)
    assert found == pytest.approx((reno, mathis, cubic_window, cubic), abs=6e-4)


def test_seconds_of_goodput():
    bps = [9.0e9, 9.4e9, 9.4e9, 9.3e9]
    assert t.seconds_quantile(bps, 0.05) == 9.0e9
    assert t.seconds_quantile(bps, 0.5) == 9.3e9
    assert t.mean_rate(bps) == pytest.approx(9.275e9)
    assert t.variation_coefficient(bps) == pytest.approx(0.0204, abs=1e-4)
    assert t.seconds_interval(bps, 0.5) == (None, None)


def test_no_second_is_no_rate():
    assert t.seconds_quantile([], 0.5) is t.mean_rate([]) is t.variation_coefficient([]) is None
    assert t.variation_coefficient([5.0]) is t.variation_coefficient([0.0, 0.0]) is None
    assert t.seconds_interval([], 0.5) == (None, None)
