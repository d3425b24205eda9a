#!/usr/bin/env python3
"""Makes the health samples: small files of every format that TalkNode reads, each with what devices and apps really do to them.

    samples/health/make.py [FOLDER]        # default: this folder

All tell of 2026-05-02 in Europe/Berlin (+0200) and of the night before. What a day comes to is in answers.json, worked out by hand and not by
a program. Needs nothing but Python's own library.
"""
import json, os, sqlite3, struct, sys, zipfile, zlib
from datetime import datetime, timedelta, timezone

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
BERLIN = timezone(timedelta(hours=2))
ANSWERS = {}


def at(text, day="2026-05-02", zone=BERLIN):
    """'07:11' or '07:11:30' of the day as a time."""
    return datetime.fromisoformat(f"{day}T{text}").replace(tzinfo=zone)


def ms(time):
    return int(time.timestamp() * 1000)


def write(name, content):
    path = os.path.join(OUT, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


def archive(name, members):
    path = os.path.join(OUT, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member, content in members.items():
            info = zipfile.ZipInfo(member, (2026, 5, 2, 23, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content)


def answer(name, **figures):
    ANSWERS[name] = figures


# --- Apple Health ---------------------------------------------------------------------------------------------------------------------

DTD = """<!DOCTYPE HealthData [
<!-- HealthKit Export Version: 13 -->
<!ELEMENT HealthData (ExportDate,Me,(Record|Correlation|Workout|ActivitySummary|ClinicalRecord|Audiogram|VisionPrescription)*)>
<!ATTLIST HealthData
  locale CDATA #REQUIRED
>
<!ELEMENT Record ((MetadataEntry|HeartRateVariabilityMetadataList)*)>
<!ATTLIST Record
  type          CDATA #REQUIRED
  unit          CDATA #IMPLIED
  value         CDATA #IMPLIED
<!-- Note: Any Records that appear as children of a correlation also appear as top-level records in this document. -->
<!ELEMENT Correlation ((MetadataEntry|Record)*)>
  device        CDATA #IMPLIED
>
]>
"""
WATCH = ('sourceName="Anna\u2019s Apple\u00a0Watch" sourceVersion="10.4" device="&lt;&lt;HKDevice: 0x2817d%s&gt;, name:Apple Watch, '
         'manufacturer:Apple Inc., model:Watch, hardware:Watch6,2, software:10.4&gt;"')
PHONE = ('sourceName="Anna&#8217;s phone" sourceVersion="17.4.1" device="&lt;&lt;HKDevice: 0x2817e%s&gt;, name:iPhone, '
         'manufacturer:Apple Inc., model:iPhone, hardware:iPhone14,5, software:17.4.1&gt;"')
count = 0


def stamp(time):
    return time.strftime("%Y-%m-%d %H:%M:%S %z")


def record(kind, source, start, end, value=None, unit=None, children=""):
    global count
    count += 1
    attributes = [f'type="HK{kind}"', source % f"{count:04x}"]
    if unit:
        attributes.append(f'unit="{unit}"')
    attributes += [f'creationDate="{stamp(end)}"', f'startDate="{stamp(start)}"', f'endDate="{stamp(end)}"']
    if value is not None:
        attributes.append(f'value="{value}"')
    head = " <Record " + " ".join(attributes)
    return head + (f">\n{children} </Record>\n" if children else "/>\n")


def steps(source, start, end, value):
    return record("QuantityTypeIdentifierStepCount", source, start, end, value, "count")


def sleep(source, start, end, stage):
    return record("CategoryTypeIdentifierSleepAnalysis", source, start, end, "HKCategoryValueSleepAnalysis" + stage)


def resting(source, start, end, value):
    return record("QuantityTypeIdentifierRestingHeartRate", source, start, end, value, "count/min")


def apple():
    night = lambda text: at(text, "2026-05-01")
    tokyo = timezone(timedelta(hours=9))
    records = [
        # Other days, and things that are none of ours.
        steps(WATCH, night("10:00"), night("10:10"), 999),
        record("QuantityTypeIdentifierHeartRate", WATCH, at("07:00"), at("07:00"), 61, "count/min"),
        record("QuantityTypeIdentifierRespiratoryRate", WATCH, at("03:00"), at("03:00"), 14, "count/min"),
        record("QuantityTypeIdentifierStepCountGoal", WATCH, at("03:00"), at("03:00"), 10000, "count"),
        # The watch: 600 from 07:00 to 07:10; a record of which half lies before midnight: 100 of 200; in another zone's clock: 300.
        steps(WATCH, at("07:00"), at("07:10"), 600),
        steps(WATCH, night("23:50"), at("00:10"), 200),
        steps(WATCH, datetime(2026, 5, 2, 19, 0, tzinfo=tokyo), datetime(2026, 5, 2, 19, 10, tzinfo=tokyo), 300),
        # Ends exactly at midnight: of the day before.
        steps(WATCH, night("23:40"), at("00:00"), 77),
        # Two records of one source at the same time add: 50 + 70.
        steps(WATCH, at("15:00"), at("15:10"), 50), steps(WATCH, at("15:00"), at("15:05"), 70),
        # The phone at the same time as the watch (nothing), half beside it (200 of 400), and alone (1000).
        steps(PHONE, at("07:02"), at("07:08"), 480), steps(PHONE, at("07:05"), at("07:15"), 400),
        steps(PHONE, at("17:00"), at("17:20"), 1000),
        # Times that can't be.
        steps(PHONE, datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc), 5000),
        steps(PHONE, at("18:00"), at("17:00"), 5000),
        # The night: in bed is not asleep; awake in the middle; two sources over the same hours counted once. 22:50-02:00, 02:10-05:00,
        # 05:00-06:30 by the watch, of which the day has 00:00-02:00 and 02:10-06:30: 380 minutes; a nap of 30 by the phone: 410.
        sleep(PHONE, night("22:15"), at("07:00"), "InBed"),
        sleep(WATCH, night("22:50"), at("02:00"), "AsleepCore"), sleep(WATCH, at("02:00"), at("02:10"), "Awake"),
        sleep(WATCH, at("02:10"), at("05:00"), "AsleepDeep"), sleep(WATCH, at("05:00"), at("06:30"), "AsleepREM"),
        sleep(PHONE, at("03:00"), at("06:00"), "AsleepUnspecified"), sleep(PHONE, at("13:00"), at("13:30"), "Asleep"),
        # The mean of 56 and 59: 57.5. The day before had another.
        resting(WATCH, night("00:05"), night("23:30"), 70), resting(WATCH, at("00:05"), at("12:00"), 56),
        resting(WATCH, at("12:00"), at("20:00"), 59),
        # What stands in a group stands on its own too, and its copy must not count.
        ' <Correlation type="HKCorrelationTypeIdentifierFood" %s creationDate="%s" startDate="%s" endDate="%s">\n %s </Correlation>\n' % (
            PHONE % "aaaa", stamp(at("12:00")), stamp(at("12:00")), stamp(at("12:00")), steps(PHONE, at("21:00"), at("21:10"), 4000)),
        # An attribute's name with a blank in it, a vertical tab, an element that is not closed properly.
        ' <Record type="HKQuantityTypeIdentifierStepCount" old name="x" %s unit="count" startDate="%s" endDate="%s"\x0b value="40"/>\n' % (
            WATCH % "bbbb", stamp(at("20:00")), stamp(at("20:01"))),
        ' <Note text="line one\x0bline two \x01"/>\n',
    ]
    workouts = """ <Workout workoutActivityType="HKWorkoutActivityTypeRunning" duration="31.5" durationUnit="min" %s creationDate="%s" startDate="%s" endDate="%s">
  <MetadataEntry key="HKTimeZone" value="Europe/Berlin"/>
  <WorkoutEvent type="HKWorkoutEventTypePause" date="%s"/>
  <WorkoutActivity uuid="A" startDate="%s" endDate="%s" duration="31.5" durationUnit="min"/>
  <WorkoutStatistics type="HKQuantityTypeIdentifierStepCount" startDate="%s" endDate="%s" sum="5200" unit="count"/>
  <WorkoutRoute sourceName="Anna" startDate="%s" endDate="%s"><FileReference path="/workout-routes/r.gpx"/></WorkoutRoute>
 </Workout>
 <Workout workoutActivityType="HKWorkoutActivityTypeYoga" duration="1200" durationUnit="s" %s startDate="%s" endDate="%s"/>
 <Workout workoutActivityType="HKWorkoutActivityTypeHiking" duration="90" durationUnit="min" %s startDate="%s" endDate="%s"/>
""" % ((WATCH % "cccc",) + tuple(stamp(at(t)) for t in ("18:40", "18:00", "18:40", "18:10", "18:00", "18:40", "18:00", "18:40", "18:00", "18:40"))
       + (WATCH % "dddd", stamp(at("21:00")), stamp(at("21:20")))
       # Begins the day before.
       + (WATCH % "eeee", stamp(night("23:30")), stamp(at("01:00"))))
    body = "".join(records) + workouts
    half = len(records) // 2
    # Several roots: two exports one after the other, as some tools join them.
    text = ('<?xml version="1.0" encoding="UTF-8"?>\n' + DTD + '<HealthData locale="de_DE">\n <ExportDate value="2026-05-02 23:00:00 +0200"/>\n'
            + "".join(records[:half]) + "</HealthData>\n" + '<HealthData locale="de_DE">\n' + "".join(records[half:]) + workouts + "</HealthData>\n")
    assert body
    cda = '<?xml version="1.0"?>\n<ClinicalDocument xmlns="urn:hl7-org:v3">' + steps(PHONE, at("09:00"), at("09:10"), 7777) + "</ClinicalDocument>\n"
    # 600 + 100 + 300 + 50 + 70 + 40 by the watch, 200 + 1000 by the phone.
    figures = dict(stepCount=2360, sleepMinutes=410, restingHeartRate=57.5, workoutCount=2, workoutMinutes=52)
    write("apple/export.xml", text)
    write("apple/export_cda.xml", cda)
    answer("apple", **figures)
    archive("apple-zip/export.zip", {
        "apple_health_export/export_cda.xml": cda, "apple_health_export/Exportaci\u00f3n.xml": text,
        "apple_health_export/workout-routes/r.gpx": "<gpx/>"})
    answer("apple-zip", **figures)


# --- SQLite ---------------------------------------------------------------------------------------------------------------------------

def database(path, script, rows):
    """The bytes of a data base; rows = {table: [tuple]}."""
    if os.path.exists(path):
        os.unlink(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA page_size = 1024")
    connection.executescript(script)
    for table, list_ in rows.items():
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(list_[0]))})", list_)
    connection.commit()
    connection.execute("VACUUM")
    connection.close()


def gadgetbridge():
    path = os.path.join(OUT, "gadgetbridge/Gadgetbridge.db")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    minutes = []
    second = lambda time: int(time.timestamp())
    # Asleep (light 9 and deep 11 in the low four bits) from 23:00 to 06:00, awake 02:00-02:30: 330 minutes of the day. Heart rates come and
    # go; 0 and 255 are none. The calmest half hour has 48.
    time = at("23:00", "2026-05-01")
    while time < at("08:00"):
        clock = time.strftime("%H:%M")
        asleep = not ("02:00" <= clock < "02:30") and (clock < "06:00" or clock >= "23:00")
        kind = (0x70 | (11 if "03:00" <= clock < "04:00" else 9)) if asleep else 1
        rate = 48 if "03:00" <= clock < "03:30" else 255 if time.minute % 7 == 0 else 0 if time.minute % 11 == 0 else 62
        minutes.append((second(time), 1, 1, 20, 0, kind, rate))
        time += timedelta(minutes=1)
    # 30 minutes of 50 steps: 1500. One of -1 and one absurd value count nothing.
    for minute in range(30):
        minutes.append((second(at("12:00")) + minute * 60, 1, 1, 90, 50, 1, 255))
    minutes.append((second(at("13:00")), 1, 1, 0, -1, 115, -1))
    minutes.append((second(at("13:01")), 1, 1, 0, 60000, 1, 255))
    # Times that can't be: a band whose battery was empty, and one that was set wrong.
    minutes.append((60, 1, 1, 0, 900, 1, 70))
    minutes.append((second(datetime(2096, 1, 1, tzinfo=timezone.utc)), 1, 1, 0, 900, 1, 70))
    # Another device of another kind with a table of its own, worn at 12:15-12:45: 15 minutes of 40 beside the band's: 600. Its times are in
    # milliseconds.
    other = [(ms(at("12:15")) + minute * 60000, 2, 1, 40, -1) for minute in range(30)]
    workouts = [
        (1, "Walk", ms(at("12:00")), ms(at("12:30")), 1, 1, 1, None), (2, "Ride", ms(at("16:00")), ms(at("17:10")), 1, 1, 1, None),
        (3, "Late", ms(at("23:00", "2026-05-01")), ms(at("00:30")), 1, 1, 1, None)]
    database(path, """
        CREATE TABLE DEVICE (_id INTEGER PRIMARY KEY, NAME TEXT NOT NULL, MANUFACTURER TEXT, IDENTIFIER TEXT, TYPE INTEGER, MODEL TEXT, ALIAS TEXT);
        CREATE TABLE USER (_id INTEGER PRIMARY KEY, NAME TEXT);
        CREATE TABLE MI_BAND_ACTIVITY_SAMPLE (TIMESTAMP INTEGER NOT NULL, DEVICE_ID INTEGER NOT NULL, USER_ID INTEGER NOT NULL,
          RAW_INTENSITY INTEGER NOT NULL, STEPS INTEGER NOT NULL, RAW_KIND INTEGER NOT NULL, HEART_RATE INTEGER NOT NULL,
          PRIMARY KEY (TIMESTAMP, DEVICE_ID) ON CONFLICT REPLACE) WITHOUT ROWID;
        CREATE TABLE NEW_WATCH_ACTIVITY_SAMPLE (TIMESTAMP INTEGER NOT NULL, DEVICE_ID INTEGER NOT NULL, USER_ID INTEGER NOT NULL,
          STEPS INTEGER NOT NULL, HEART_RATE INTEGER NOT NULL, PRIMARY KEY (TIMESTAMP, DEVICE_ID) ON CONFLICT REPLACE) WITHOUT ROWID;
        CREATE TABLE EMPTY_ACTIVITY_SAMPLE (TIMESTAMP INTEGER NOT NULL, DEVICE_ID INTEGER NOT NULL);
        CREATE VIEW FAKE_ACTIVITY_SAMPLE AS SELECT TIMESTAMP, DEVICE_ID, 100000 AS STEPS FROM MI_BAND_ACTIVITY_SAMPLE;
        CREATE TABLE BASE_ACTIVITY_SUMMARY (_id INTEGER PRIMARY KEY, NAME TEXT, START_TIME INTEGER, END_TIME INTEGER, ACTIVITY_KIND INTEGER,
          DEVICE_ID INTEGER, USER_ID INTEGER, SUMMARY_DATA TEXT);
        """, {
        "DEVICE": [(1, "Mi Smart Band 4", "Huami", "C0:FF:EE:00:00:01", 25, None, "Band"), (2, "New Watch", "Somebody", "C0:FF:EE:00:00:02", 99, None, None)],
        "USER": [(1, "anna")], "MI_BAND_ACTIVITY_SAMPLE": minutes, "NEW_WATCH_ACTIVITY_SAMPLE": other, "BASE_ACTIVITY_SUMMARY": workouts})
    answer("gadgetbridge", stepCount=2100, sleepMinutes=330, restingHeartRate=48.0, workoutCount=2, workoutMinutes=100)


def health_connect():
    path = os.path.join(OUT, "health_connect_export.db")
    base = "INTEGER PRIMARY KEY, uuid BLOB, last_modified_time INTEGER, client_record_id TEXT, client_record_version TEXT, device_info_id INTEGER, app_info_id INTEGER, recording_method INTEGER"
    blank = (None, 0, None, None)
    span = lambda start, end: (ms(start), 7200, ms(end), 7200)
    row = lambda number, app, device, *rest: (number,) + blank + (device, app, 2) + rest
    steps_ = [
        # The watch 09:00-09:30 (900); the phone 09:15-09:45 (600, of which half lies beside it: 300); another app without a device at the
        # same time as the watch (nothing).
        row(1, 1, 1, *span(at("09:00"), at("09:30")), 900), row(2, 1, 2, *span(at("09:15"), at("09:45")), 600),
        row(3, 2, None, *span(at("09:00"), at("09:30")), 850), row(4, 1, 1, *span(at("09:00", "2026-05-01"), at("09:30", "2026-05-01")), 5000),
        # Across midnight: half of 100.
        row(5, 1, 1, *span(at("23:30", "2026-05-01"), at("00:30")), 100)]
    sleep_ = [
        row(1, 1, 1, *span(at("22:30", "2026-05-01"), at("06:30")), None, None),
        # Without stages: all of it is asleep. 14:00-14:45.
        row(2, 2, None, *span(at("14:00"), at("14:45")), None, None)]
    # Light 22:30-01:00, awake -01:20, deep -04:00, REM -06:00, awake in bed -06:30: of the day 60 + 160 + 120 = 340; with the nap 385.
    stages = [(1, ms(at("22:30", "2026-05-01")), ms(at("01:00")), 4), (1, ms(at("01:00")), ms(at("01:20")), 1), (1, ms(at("01:20")), ms(at("04:00")), 5),
              (1, ms(at("04:00")), ms(at("06:00")), 6), (1, ms(at("06:00")), ms(at("06:30")), 7)]
    database(path, f"""
        CREATE TABLE application_info_table (row_id INTEGER PRIMARY KEY, package_name TEXT, app_name TEXT, app_icon BLOB, record_types_used TEXT);
        CREATE TABLE device_info_table (row_id INTEGER PRIMARY KEY, manufacturer TEXT, model TEXT, device_type INTEGER);
        CREATE TABLE steps_record_table (row_id {base}, start_time INTEGER, start_zone_offset INTEGER, end_time INTEGER, end_zone_offset INTEGER, count INTEGER);
        CREATE TABLE resting_heart_rate_record_table (row_id {base}, time INTEGER, zone_offset INTEGER, beats_per_minute INTEGER);
        CREATE TABLE sleep_session_record_table (row_id {base}, start_time INTEGER, start_zone_offset INTEGER, end_time INTEGER, end_zone_offset INTEGER, notes TEXT, title TEXT);
        CREATE TABLE sleep_stages_table (parent_key INTEGER, stage_start_time INTEGER, stage_end_time INTEGER, stage_type INTEGER);
        CREATE TABLE exercise_session_record_table (row_id {base}, start_time INTEGER, start_zone_offset INTEGER, end_time INTEGER, end_zone_offset INTEGER, exercise_type INTEGER, title TEXT);
        """, {
        "application_info_table": [(1, "com.example.fit", "Example Fit", None, None), (2, "org.other.app", None, None, None)],
        "device_info_table": [(1, "Maker", "Time Piece", 1), (2, "Maker", "Handy", 2)],
        "steps_record_table": steps_, "sleep_session_record_table": sleep_, "sleep_stages_table": stages,
        "resting_heart_rate_record_table": [row(1, 1, 1, ms(at("07:00")), 7200, 54), row(2, 1, 1, ms(at("07:00", "2026-05-01")), 7200, 80)],
        "exercise_session_record_table": [row(1, 1, 1, *span(at("17:00"), at("17:45")), 56, "Run"),
                                          # The same run, as another app has seen it.
                                          row(2, 2, None, *span(at("17:01"), at("17:44")), 56, "run")]})
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    archive("health-connect/Health Connect.zip", {"health_connect_export.db": content})
    answer("health-connect", stepCount=1250, sleepMinutes=385, restingHeartRate=54.0, workoutCount=1, workoutMinutes=45)


# --- FIT ------------------------------------------------------------------------------------------------------------------------------

def crc(data):
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ 0xA001 if value & 1 else value >> 1
    return value


def fit_time(time):
    return int(time.timestamp()) - 631065600


class Fit:
    """Writes messages; types: 'B' enum or uint8, 'H' uint16, 'I' uint32, 'Z' zero-ended text."""
    TYPES = {"B": (1, 0x02), "e": (1, 0x00), "H": (2, 0x84), "I": (4, 0x86), "z": (4, 0x8C)}

    def __init__(self, big=False):
        self.body, self.big, self.defined = b"", big, {}

    def message(self, local, kind, fields, developer=b"", header=None):
        """fields = [(number, type, value)]."""
        layout = (kind, tuple((number, type_, len(value) if type_ == "Z" else 0) for number, type_, value in fields), len(developer))
        order = ">" if self.big else "<"
        if self.defined.get(local) != layout:
            self.defined[local] = layout
            self.body += struct.pack("BBB", 0x40 | local | (0x20 if developer else 0), 0, 1 if self.big else 0)
            self.body += struct.pack(order + "H", kind) + struct.pack("B", len(fields))
            for number, type_, value in fields:
                size, base = (len(value), 0x07) if type_ == "Z" else self.TYPES[type_]
                self.body += struct.pack("BBB", number, size, base)
            if developer:
                self.body += struct.pack("BBBB", 1, 0, len(developer), 0)
        self.body += struct.pack("B", local if header is None else header)
        for number, type_, value in fields:
            self.body += value if type_ == "Z" else struct.pack(order + {"e": "B", "z": "I"}.get(type_, type_), value)
        self.body += developer

    def file(self, length=None, bad_sum=False, header=14):
        head = struct.pack("<BBHI4s", header, 0x20, 2132, len(self.body) if length is None else length, b".FIT")
        if header == 14:
            head += struct.pack("<H", crc(head))
        data = head + self.body
        return data + struct.pack("<H", crc(data) ^ (0x5555 if bad_sum else 0))


def fit_head(fit, type_, serial=4711, name=b""):
    fields = [(0, "e", type_), (1, "H", 1), (2, "H", 3289), (3, "z", serial), (4, "I", fit_time(at("08:00")))]
    if name:
        fields.append((8, "Z", name + b"\0"))
    fit.message(0, 0, fields)


def session(fit, sport, start, elapsed, timer, cycles=0xFFFFFFFF):
    fit.message(3, 18, [(253, "I", fit_time(start) + elapsed), (2, "I", fit_time(start)), (5, "e", sport), (7, "I", elapsed * 1000), (8, "I", timer * 1000),
                        (10, "I", cycles)])


def fit():
    # A run of 30 minutes with a pause of 4, 2400 cycles = 4800 steps. Written big-endian, with a developer's field; times of its records are
    # compressed.
    run = Fit(big=True)
    fit_head(run, 4, name=b"Runner 9")
    start = at("07:00")
    for second in range(0, 40):
        if second == 0:
            run.message(1, 20, [(253, "I", fit_time(start)), (3, "B", 120)], developer=b"\x07")
        else:
            run.message(2, 20, [(3, "B", 121)], header=0x80 | 2 << 5 | (fit_time(start) + second) & 31)
    session(run, 1, start, 1800, 1560, 2400)
    run.message(4, 34, [(253, "I", fit_time(at("07:30"))), (0, "I", 1560000), (1, "H", 1), (2, "e", 0), (5, "I", fit_time(at("07:30")) + 7200)])
    # A triathlon in one file: 20 min, transition 3, 60, transition of 2 that nobody recorded, 30: one workout of 115 minutes.
    multi = Fit()
    fit_head(multi, 4)
    session(multi, 5, at("09:00"), 1200, 1200)
    session(multi, 3, at("09:20"), 180, 180)
    session(multi, 2, at("09:23"), 3600, 3600)
    session(multi, 1, at("10:25"), 1800, 1800, 2500)
    # A day: counters of walking since midnight, once with a short time; heart rates; what the watch thinks is resting.
    day = Fit()
    fit_head(day, 32)
    day.message(5, 103, [(253, "I", fit_time(at("00:00"))), (0, "I", fit_time(at("00:00")) + 7200)])
    # The last count of the day before is written at midnight itself.
    day.message(6, 55, [(253, "I", fit_time(at("00:00"))), (5, "e", 6), (3, "I", 9999)])
    day.message(6, 55, [(253, "I", fit_time(at("08:00"))), (5, "e", 6), (3, "I", 1000)])
    day.message(7, 55, [(26, "H", fit_time(at("08:10")) & 0xFFFF), (27, "B", 71)])
    day.message(8, 55, [(26, "H", fit_time(at("09:00")) & 0xFFFF), (5, "e", 6), (3, "I", 1400)])
    day.message(6, 55, [(253, "I", fit_time(at("09:30"))), (5, "e", 1), (3, "I", 700)])
    day.message(9, 211, [(253, "I", fit_time(at("10:00"))), (0, "B", 60), (1, "B", 52)])
    # The same day goes on in another file, where the counters go on too: 1900 walked in all.
    later = Fit()
    fit_head(later, 32)
    later.message(6, 55, [(253, "I", fit_time(at("12:00"))), (5, "e", 6), (3, "I", 1400)])
    later.message(6, 55, [(253, "I", fit_time(at("20:00"))), (5, "e", 6), (3, "I", 1900)])
    later.message(9, 211, [(253, "I", fit_time(at("20:00"))), (0, "B", 60), (1, "B", 53)])
    # A night: light from 23:00, awake 03:00-03:30, deep to 04:30, REM to 06:00: of the day 180 + 60 + 90 = 330.
    night = Fit()
    fit_head(night, 49)
    for time, level in ((at("23:00", "2026-05-01"), 2), (at("03:00"), 1), (at("03:30"), 3), (at("04:30"), 4)):
        night.message(10, 275, [(253, "I", fit_time(time)), (0, "e", level)])
    night.message(11, 21, [(253, "I", fit_time(at("06:00"))), (0, "e", 74), (1, "e", 1)])
    # Chained: two files in one, and bytes behind them.
    write("fit/day.fit", day.file() + later.file(header=12) + b"\0\0\0trailing")
    write("fit/run.fit", run.file())
    write("fit/triathlon.fit", multi.file())
    write("fit/night.fit", night.file(bad_sum=True))
    # 1900 walked and 700 run; the steps inside the workouts' files are left out.
    answer("fit", stepCount=2600, sleepMinutes=330, restingHeartRate=52.5, workoutCount=2, workoutMinutes=141)
    # Only workouts: then their steps are told: 4800 + 5000. One was never closed and the sum of one is wrong: both still hold their sessions.
    write("fit-partial/open.fit", run.file(length=0))
    write("fit-partial/wrong-sum.fit", multi.file(bad_sum=True))
    broken = Fit()
    fit_head(broken, 4, serial=12)
    for second in range(0, 601, 10):
        broken.message(1, 20, [(253, "I", fit_time(at("15:00")) + second), (3, "B", 99)])
    # A recording that broke off after ten minutes: no session, and the file ends in a message.
    write("fit-partial/broken.fit", broken.file(length=len(broken.body) + 500)[:-5])
    answer("fit-partial", stepCount=9800, workoutCount=3, workoutMinutes=151)


# --- Fitbit ---------------------------------------------------------------------------------------------------------------------------

def fitbit():
    utc = lambda time: time.astimezone(timezone.utc).strftime("%m/%d/%y %H:%M:%S")
    local = lambda time: time.strftime("%Y-%m-%dT%H:%M:%S.000")
    folder = "Takeout/Fitbit/Global Export Data/"
    # In UTC: 22:30 of the first is 00:30 here. 40 minutes of 30 steps: 1200; and 500 at 21:59 UTC, which is 23:59 of the day before.
    steps_ = [{"dateTime": utc(at("00:30")), "value": "200"}, {"dateTime": utc(at("23:59", "2026-05-01")), "value": "500"}]
    steps_ += [{"dateTime": utc(at("10:00") + timedelta(minutes=minute)), "value": "30"} for minute in range(40)] + [{"dateTime": utc(at("11:00")), "value": "0"}]
    # By the clocks: light 23:00-02:00, deep -03:00, wake -03:10, rem -05:00, with a spell awake of 2 minutes at 04:00: 120 + 60 + 110 - 2.
    levels = {"data": [
        {"dateTime": "2026-05-01T23:00:00.000", "level": "light", "seconds": 10800}, {"dateTime": "2026-05-02T02:00:00.000", "level": "deep", "seconds": 3600},
        {"dateTime": "2026-05-02T03:00:00.000", "level": "wake", "seconds": 600}, {"dateTime": "2026-05-02T03:10:00.000", "level": "rem", "seconds": 6600}],
        "shortData": [{"dateTime": "2026-05-02T04:00:00.000", "level": "wake", "seconds": 120}]}
    nights = [{"logId": 1, "dateOfSleep": "2026-05-02", "startTime": "2026-05-01T23:00:00.000", "endTime": "2026-05-02T05:00:00.000", "duration": 21600000,
               "type": "stages", "mainSleep": True, "levels": levels},
              # The old kind, 13:00-13:20, of which 5 minutes restless.
              {"logId": 2, "dateOfSleep": "2026-05-02", "startTime": local(at("13:00")), "endTime": local(at("13:20")), "duration": 1200000, "type": "classic",
               "levels": {"data": [{"dateTime": local(at("13:00")), "level": "asleep", "seconds": 900}, {"dateTime": local(at("13:15")), "level": "restless", "seconds": 300}]}}]
    rates = [{"dateTime": "05/01/26 00:00:00", "value": {"date": "05/01/26", "value": 70.5, "error": 6.7}},
             {"dateTime": "05/02/26 00:00:00", "value": {"date": "05/02/26", "value": 57.26, "error": 6.7}},
             # What it writes for a day without one.
             {"dateTime": "05/03/26 00:00:00", "value": {"date": None, "value": 0.0, "error": 0.0}}]
    exercises = [{"logId": 9, "activityName": "Run", "startTime": utc(at("18:00")), "duration": 2400000, "activeDuration": 1800000, "steps": 4000}]
    write(f"fitbit/{folder}steps-2026-04-25.json", json.dumps(steps_, indent=1))
    write(f"fitbit/{folder}sleep-2026-04-25.json", json.dumps(nights))
    write(f"fitbit/{folder}resting_heart_rate-2026-01-01.json", json.dumps(rates))
    write(f"fitbit/{folder}exercise-0.json", json.dumps(exercises))
    write(f"fitbit/{folder}badge.json", "[]")
    answer("fitbit", stepCount=1400, sleepMinutes=303, restingHeartRate=57.3, workoutCount=1, workoutMinutes=30)


# --- Google Fit -----------------------------------------------------------------------------------------------------------------------

def google_fit():
    folder = "google-fit/Takeout/Fit/"
    nano = lambda time: ms(time) * 1000000

    def point(start, end, value, type_="com.google.step_count.delta", key="intVal"):
        return {"fitValue": [{"value": {key: value}}], "originDataSourceId": "", "endTimeNanos": nano(end), "startTimeNanos": nano(start),
                "dataTypeName": type_, "modifiedTimeMillis": ms(end), "rawTimestampMillis": 0}

    def stream(name, points):
        return json.dumps({"Data Source": name, "Data Points": points}, indent=2)

    # Google's own estimate: 1100; the raw stream behind it tells 900 of the same and must not add.
    estimate = [point(at("08:00"), at("08:10"), 600), point(at("19:00"), at("19:10"), 500), point(at("08:00", "2026-05-01"), at("08:10", "2026-05-01"), 4444)]
    raw = [point(at("08:01"), at("08:09"), 550), point(at("19:05"), at("19:15"), 350)]
    write(folder + "All Data/derived_com.google.step_count.delta_com.google.(2).json",
          stream("derived:com.google.step_count.delta:com.google.android.gms:estimated_steps", estimate))
    write(folder + "All Data/raw_com.google.step_count.delta_Handy.json", stream("raw:com.google.step_count.delta:Maker:Handy:1:x", raw))
    segments = [point(at("23:00", "2026-05-01"), at("01:00"), 4, "com.google.sleep.segment"), point(at("01:00"), at("01:30"), 1, "com.google.sleep.segment"),
                point(at("01:30"), at("05:00"), 5, "com.google.sleep.segment")]
    write(folder + "All Data/raw_com.google.sleep.segment_x.json", stream("raw:com.google.sleep.segment:x", segments))
    rates = [point(at("06:00"), at("06:00"), 55.04, "com.google.heart_rate.bpm", "fpVal"), point(at("20:00"), at("20:00"), 56.02, "com.google.heart_rate.bpm", "fpVal")]
    write(folder + "All Data/derived_com.google.heart_rate.bpm_com.google.an.json",
          stream("derived:com.google.heart_rate.bpm:com.google.android.gms:resting_heart_rate<-merge_heart_rate_bpm", rates))
    session_ = {"fitnessActivity": "running", "startTime": at("16:00").astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "endTime": at("16:40").astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "duration": "2100s",
                "segment": [{"fitnessActivity": "running", "startTime": "x", "endTime": "y"}], "aggregate": [{"metricName": "com.google.step_count.delta", "intValue": 4000}]}
    write(folder + "All Sessions/2026-05-02T16_00_00+02_00_RUNNING.json", json.dumps(session_, indent=2))
    sleep_ = {"fitnessActivity": "sleep", "startTime": "2026-05-01T21:00:00Z", "endTime": "2026-05-02T03:00:00Z", "duration": "21600s", "segment": [], "aggregate": []}
    write(folder + "All Sessions/2026-05-01T23_00_00+02_00_SLEEP.json", json.dumps(sleep_))
    # The same run once more, and the same steps in rows of a quarter of an hour.
    write(folder + "Activities/2026-05-02T16_00_00+02_00_PT35M_Running.tcx", """<?xml version='1.0' encoding='UTF-8'?>
<TrainingCenterDatabase xmlns="http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2">
 <Activities><Activity Sport="Running"><Id>2026-05-02T14:00:00.000Z</Id>
  <Lap StartTime="2026-05-02T14:00:00.000Z"><TotalTimeSeconds>1200.0</TotalTimeSeconds><Track/></Lap>
  <Lap StartTime="2026-05-02T14:20:00.000Z"><TotalTimeSeconds>900.0</TotalTimeSeconds></Lap></Activity></Activities>
</TrainingCenterDatabase>
""")
    rows = ["Start time,End time,Move Minutes count,Calories (kcal),Step count"]
    for quarter in range(96):
        start, end = at("00:00") + timedelta(minutes=15 * quarter), at("00:00") + timedelta(minutes=15 * quarter + 15)
        clock = lambda time: time.strftime("%H:%M:%S.000+02:00")
        rows.append(f"{clock(start)},{clock(end)},,17.5,{ {32: 590, 76: 480}.get(quarter, '') }")
    write(folder + "Daily activity metrics/2026-05-02.csv", "\n".join(rows) + "\n")
    write(folder + "Daily activity metrics/Daily activity metrics.csv", "Date,Step count\n2026-05-02,1070\n")
    # 60 + 210 minutes of the day.
    answer("google-fit", stepCount=1100, sleepMinutes=270, restingHeartRate=55.5, workoutCount=1, workoutMinutes=35)
    # Without the streams, the rows are all there is.
    write("google-fit-daily/Fit/Daily activity metrics/2026-05-02.csv", "\n".join(rows) + "\n")
    answer("google-fit-daily", stepCount=1070)


# --- Our own --------------------------------------------------------------------------------------------------------------------------

def plain():
    write("plain/day.csv", "\ufeff" + """kind,start,end,value,source
steps,2026-05-02T07:00,2026-05-02T08:00,812,"my watch, left"
steps,2026-05-02T05:30:00Z,2026-05-02T05:45:00Z,300,pocket
asleep,2026-05-01T23:10+02:00,2026-05-02T06:40+02:00,,my watch
awake,2026-05-02T03:00,2026-05-02T03:20,,my watch
in_bed,2026-05-01T22:00,2026-05-02T07:30,,my watch
resting_heart_rate,2026-05-02T06:40,,58,my watch
workout,2026-05-02T17:00,2026-05-02T18:00,45.4,my watch

steps,yesterday,,5,my watch
steps,2026-05-02T09:00,2026-05-02T10:00,many,my watch
dance,2026-05-02T09:00,2026-05-02T10:00,1,my watch
""")
    answer("plain", stepCount=812, sleepMinutes=400, restingHeartRate=58.0, workoutCount=1, workoutMinutes=45)
    # As semicolons and as JSON; a whole day; a night without stages. Also JSON text a line.
    write("plain-json/day.json", json.dumps({"source": "ring", "records": [
        {"kind": "steps", "start": "2026-05-02", "value": 6000}, {"kind": "steps", "start": "2026-05-01", "value": 9000},
        {"kind": "night", "start": "2026-05-01T23:00:00", "end": "2026-05-02T06:30:00"}, {"kind": "steps", "start": 7, "value": 1}]}))
    write("plain-json/hearts.csv", "start;kind;value\n2026-05-02 06:00;resting_heart_rate;50\n2026-05-02 07:00;resting_heart_rate;51\n")
    answer("plain-json", stepCount=6000, sleepMinutes=390, restingHeartRate=50.5)


for make in (apple, gadgetbridge, health_connect, fit, fitbit, google_fit, plain):
    make()
write("answers.json", json.dumps({"day": "2026-05-02", "zone": "Europe/Berlin", "answers": ANSWERS}, indent=1, sort_keys=True) + "\n")
