"""What is in a handover ends for nobody: the simulation lets no time pass for it."""

from extauthz.simulate.member import Handover


def handover():
    times, stood = iter(range(100)), []
    return Handover(lambda: next(times), stood.append), stood


def test_the_time_between_a_clean_stop_and_the_next_start_does_not_count():
    one, stood = handover()  # at 0
    one.take()  # at 1
    one.leave([])  # at 2
    one.take()  # at 3
    assert stood == [1, 1]


def test_after_a_crash_nothing_was_in_the_handover():
    one, stood = handover()
    one.take()
    one.take()
    assert stood == [1]
